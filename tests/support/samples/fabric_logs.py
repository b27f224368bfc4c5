"""What MPI and NCCL write about the way that they take: real output, its length cut. The source is beside each."""
# ruff: noqa: E501

UCX_TCP = """
[1795190318.220305] [a:795  :0]      ucp_worker.c:1903 UCX  INFO    ucp_context_0 intra-node cfg#1 tag(sysv/memory tcp/eth0)  rma(sysv/memory)  am(sysv/memory tcp/eth0)
[1795190318.223812] [a:824  :0]      ucp_worker.c:1903 UCX  INFO    ucp_context_0 self cfg#1 tag(self/memory cma/memory)  rma(self/memory)  am(self/memory cma/memory)
[1795190318.244206] [a:824  :0]      ucp_worker.c:1903 UCX  INFO    ucp_context_0 inter-node cfg#2 tag(tcp/eth0)  rma_am(tcp/eth0)  am(tcp/eth0)
"""
"""Debian's MPICH 4.2.1 with UCX 1.18.1, two containers on a bridge."""

UCX_ALONE = """
[1795190318.223812] [a:824  :0]      ucp_worker.c:1903 UCX  INFO    ucp_context_0 self cfg#1 tag(self/memory cma/memory)  rma(self/memory)  am(self/memory cma/memory)
"""

UCX_INFINIBAND = """
[1750940428.181226] [jpbo-007-31:2814548:0]      ucp_worker.c:1903 UCX  INFO    ucp_context_0 inter-node cfg#8 tag(rc_mlx5/mlx5_2:1 rc_mlx5/mlx5_0:1 rc_mlx5/mlx5_1:1 rc_mlx5/mlx5_3:1)
[1750940426.960564] [jpbo-007-24:516901:0]      ucp_worker.c:1903 UCX  INFO    ucp_context_0 intra-node cfg#4 tag(sysv/memory cma/memory rc_mlx5/mlx5_3:1 rc_mlx5/mlx5_0:1 cuda_ipc/cuda)
"""
"""github.com/parthenon-hpc-lab/parthenon, issue 1260."""

UCX_OLD_INFINIBAND = """
[1624984398.083715] [r39c2t5n1:22453:0]     ucp_worker.c:1720 UCX  INFO  ep_cfg[0]: tag(self/memory rc_mlx5/mlx5_0:1 rc_mlx5/mlx5_1:1);
[1624984398.153330] [r39c2t5n4:22213:0]     ucp_worker.c:1720 UCX  INFO  ep_cfg[1]: tag(rc_mlx5/mlx5_0:1 rc_mlx5/mlx5_1:1);
"""
"""github.com/open-mpi/ompi, issue 9080: UCX before it names the side."""

UCX_1_13_ALONE = """
[1795192451.368547] [b621056d7d06:14   :0]      ucp_worker.c:1763 UCX  INFO    ep_cfg[0]: tag(self/memory0 cma/memory)
[1795192451.368842] [b621056d7d06:14   :0]      ucp_worker.c:1763 UCX  INFO    ep_cfg[1]: tag(sysv/memory cma/memory)
"""
"""Debian 12's Open MPI 4.1.4 with UCX 1.13.1, two ranks in one container."""

OB1_4_1_ALONE = """
[e34d8ba465f6:00026] select: component ob1 selected
[e34d8ba465f6:00025] mca: bml: Using vader btl for send to [[24459,1],1] on node e34d8ba465f6
[e34d8ba465f6:00025] mca: bml: Using self btl for send to [[24459,1],0] on node e34d8ba465f6
"""
"""Debian 12's Open MPI 4.1.4, two ranks in one container."""

OB1_TCP = """
[a:00319] select: component ob1 selected
[a:00319] mca: bml: Using self btl for send to [[17097,0],0] on node a
[a:00319] mca: bml: Using sm btl for send to [[17097,0],1] on node a
[a:00319] mca: bml: Using tcp btl for send to [[17097,0],2] on node b
"""
"""Debian's Open MPI 5.0.7, two containers on a bridge, two ranks in each."""

OB1_WITH_UCX_LOADED = UCX_ALONE + OB1_TCP

CM = """
[c5:289002] mca:base:select:(  mtl) Query of component [ofi] set priority to 25
[c5:289002] mca:base:select:(  mtl) Selected component [ofi]
[c5:289002] select: component cm selected
"""
"""github.com/openpmix/prrte, issue 1635; the last line as Open MPI writes it for any component."""

CM_EFA = CM + "[compute-dy-nodes-2:11] mtl_ofi_component.c:362: mtl:ofi:provider: rdmap0s31-rdm\n"
"""ompi/mca/mtl/ofi/mtl_ofi_component.c of Open MPI."""
CM_TCP = CM + "[c5:289002] mtl_ofi_component.c:362: mtl:ofi:prov: tcp;ofi_rxm\n"

NCCL_SOCKET = """
manolinux1:12260:12268 [0] NCCL INFO NET/IB : No device found.
manolinux1:12260:12268 [0] NCCL INFO NET/Socket : Using [0]enp1s0:10.39.42.196<0>
manolinux1:12260:12268 [0] NCCL INFO Using non-device net plugin version 0
manolinux1:12260:12268 [0] NCCL INFO Using network Socket
"""
"""github.com/NVIDIA/nccl-tests, issue 179."""

NCCL_SOCKET_CHANNELS = """
[0] node0:13571:13571 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/Socket/0
[2] node0:13572:13572 [1] NCCL INFO Channel 00 : 2[1] -> 0[0] via SHM/direct/direct
"""
"""github.com/NVIDIA/nccl, issue 1232."""

NCCL_SOCKET_OLD = """
ip-172-31-5-233:45319:45319 [0] NCCL INFO NET/IB : No device found.
ip-172-31-5-50:45326:45331 [0] NCCL INFO Ring 00 : 45 -> 46 [send] via NET/Socket/0
"""
"""github.com/NVIDIA/nccl, issue 226."""

NCCL_INFINIBAND = """
tf144:143468:143468 [1] NCCL INFO NET/IB : Using [0]mlx5_0:1/RoCE [1]mlx5_1:1/RoCE ; OOB enp88s0:192.168.17.144<0>
tf144:143468:143468 [1] NCCL INFO Using network IB
tf144:143468:143535 [1] NCCL INFO Channel 00 : 0[2f000] -> 1[86000] [receive] via NET/IB/1
"""
"""github.com/pytorch/pytorch, issue 81628."""

NCCL_INFINIBAND_OLD = """
master_node:20:289 [0] NCCL INFO NET/Socket : Using [0]ib0:192.168.11.1<0>
master_node:20:289 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB ; OOB ib0:192.168.11.1<0>
master_node:20:345 [0] NCCL INFO Ring 00 : 7 -> 0 [receive] via NET/IB/0
"""
"""github.com/Mellanox/nv_peer_memory, issue 56: 2.4.7 finds both, and takes one."""

NCCL_PLUGIN = """
VM-17-82-centos:11980:12549 [2] NCCL INFO Channel 03/0 : 2[2] -> 10[2] [send] via NET/IBext/2/GDRDMA
"""
"""github.com/deepseek-ai/DeepEP, issue 106."""

NCCL_SILENT = "manolinux1:12260:12268 [0] NCCL INFO cudaDriverVersion 12020\n"

WITHOUT_PMI = """
The application appears to have been direct launched using "srun",
but OMPI was not built with SLURM's PMI support and therefore cannot
execute. There are several options for building PMI support under
"""
"""Debian 12's Open MPI 4.1.4 under srun --mpi=none."""
