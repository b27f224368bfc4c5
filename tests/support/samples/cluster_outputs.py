"""What the programs of real clusters print, shortened; numbers that name a machine are left out.

Each has where it was read: a public thread, or a program of the distribution that was run.
"""

SLURM = {
    "24.11": "slurm-wlm 24.11.5\n",  # Debian 13
    "20.11.2": "slurm 20.11.2\n",
}

PMI = {
    # SchedMD's Slurm on a cloud: open-mpi/ompi pull request 11746
    "pmix 3": """MPI plugin types are...
\tcray_shasta
\tnone
\tpmi2
\tpmix
specific pmix plugin versions available: pmix_v3
""",
    # Rocky Linux 8: GoogleCloudPlatform/slurm-gcp pull request 53
    "pmix 2": """MPI plugin types are...
\tcray_shasta
\tnone
\tpmi2
\tpmix
specific pmix plugin versions available: pmix_v2
""",
    # openpmix/prrte issue 1635
    "pmi2 alone": """MPI plugin types are...
\tcray_shasta
\tnone
\tpmi2
""",
    # pyiron/executorlib pull request 761
    "pmix without its library": """MPI plugin types are...
\tnone
\tpmix
\tcray_shasta
\tpmi2
specific pmix plugin versions available: pmix_v5
srun: error:  mpi/pmix_v5: init: (null) [0]: mpi_pmix.c:193: pmi/pmix: can not load PMIx library
srun: error: Couldn't load specified plugin name for mpi/pmix: Plugin init() callback failed
srun: error: MPI: Cannot create context for mpi/pmix
""",
    # Debian 13, with a cluster up
    "pmix 5": """MPI plugin types are...
\tnone
\tpmix
\tcray_shasta
\tpmi2
specific pmix plugin versions available: pmix_v5
""",
    # Debian 13, with no controller to be found
    "no controller": """srun: error: resolve_ctls_from_dns_srv: res_nsearch error: Unknown host
srun: error: fetch_config: DNS SRV lookup failed
srun: fatal: Could not establish a configuration source
""",
    # until 21.08 each line begins so
    "old notation": """srun: MPI types are...
srun: none
srun: pmix_v3
srun: pmi2
srun: pmix
""",
}

MPIRUN = {
    "Open MPI 5": "mpirun (Open MPI) 5.0.7\n\nReport bugs to https://www.open-mpi.org/community/help/\n",
    "Open MPI 4": "mpirun (Open MPI) 4.1.7rc1\n\nReport bugs to http://www.open-mpi.org/community/help/\n",
    "MPICH": """HYDRA build details:
    Version:                                 4.2.1
    Release Date:                            Wed Apr 17 15:30:02 CDT 2024
    Process Manager:                         pmi
""",
    # TACC/tacc-containers issue 8: until 2021 an update is no part of the number
    "Intel 2019": """Intel(R) MPI Library for Linux* OS, Version 2019 Update 7 Build 20200312 (id: 5dc2dd3e9)
Copyright 2003-2020, Intel Corporation.
""",
    "Intel": """Intel(R) MPI Library for Linux* OS, Version 2021.9 Build 20230307 (id: d82b3071db)
Copyright 2003-2023, Intel Corporation.
""",
}

OMPI_INFO = {
    # NVIDIA's HPC-X: open-mpi/ompi issue 13191
    "HPC-X": """                 Package: Open MPI root@sharp-ci-01 Distribution
                Open MPI: 4.1.7rc1
  Open MPI repo revision: v4.1.5-175-ga2335dd1c5
                Open RTE: 4.1.7rc1
                 MPI API: 3.1.0
            Ident string: 4.1.7rc1
                  Prefix: /opt/hpcx/ompi
                 MCA pml: cm (MCA v2.1.0, API v2.0.0, Component v4.1.7)
                 MCA pml: ob1 (MCA v2.1.0, API v2.0.0, Component v4.1.7)
                 MCA pml: ucx (MCA v2.1.0, API v2.0.0, Component v4.1.7)
""",
    # Debian 13
    "Debian": """                 Package: Debian OpenMPI
                Open MPI: 5.0.7
            Ident string: 5.0.7
                  Prefix: /usr
                 MCA pml: cm (MCA v2.1.0, API v2.1.0, Component v5.0.7)
                 MCA pml: ob1 (MCA v2.1.0, API v2.1.0, Component v5.0.7)
                 MCA pml: ucx (MCA v2.1.0, API v2.1.0, Component v5.0.7)
""",
}

_PORT = """hca_id: {device}
        transport:                      {transport}
        fw_ver:                         28.39.2048
        vendor_id:                      0x02c9
        hw_ver:                         0x0
        phys_port_cnt:                  1
                port:   1
                        state:                  {state}
                        max_mtu:                4096 (5)
                        active_mtu:             4096 (5)
                        sm_lid:                 1
                        port_lmc:               0x00
                        link_layer:             {link}

"""


def port(device: str, state: str, link: str, transport: str = "InfiniBand (0)") -> str:
    return _PORT.format(device=device, state=state, link=link, transport=transport)


UP, DOWN = "PORT_ACTIVE (4)", "PORT_DOWN (1)"
IBV = {
    # Ethernet that is down beside InfiniBand that is up, as in deepseek-ai/DeepEP issue 60
    "InfiniBand": port("mlx5_12", DOWN, "Ethernet") + port("mlx5_13", UP, "InfiniBand"),
    # deepseek-ai/DeepEP issue 38
    "RoCE": port("mlx5_2", UP, "Ethernet"),
    # four for the GPUs and one that is Ethernet: NVIDIA/nccl issue 302
    "several": "".join(port(f"mlx5_{n}", UP, "Ethernet" if n == 2 else "InfiniBand") for n in range(5)),
    "one of two": port("mlx5_0", UP, "Ethernet") + port("mlx5_1", UP, "InfiniBand"),
    "down": port("mlx5_0", DOWN, "InfiniBand"),
    "none": "No IB devices found\n",
    # the device's name as in prometheus/node_exporter issue 2023
    "Omni-Path": port("hfi1_0", UP, "InfiniBand"),
}

FI_INFO = {
    # Debian 12, on Ethernet
    "tcp": """provider: tcp;ofi_rxm
    fabric: 192.0.2.0/24
    domain: eth0
    version: 117.0
    type: FI_EP_RDM
    protocol: FI_PROTO_RXM
provider: shm
    fabric: shm
    domain: shm
    version: 117.0
    type: FI_EP_RDM
    protocol: FI_PROTO_SHM
""",
    # HPE's guide to the host software of Slingshot, RDMA interface troubleshooting
    "cxi": """provider: cxi
    fabric: cxi
    domain: cxi0
    version: 0.0
    type: FI_EP_RDM
    protocol: FI_PROTO_CXI
""",
    # the AWS user guide: one interface
    "efa": """provider: efa
    fabric: EFA-fe80::1
    domain: efa_0-rdm
    version: 2.0
    type: FI_EP_RDM
    protocol: FI_PROTO_EFA
""",
}
LIBFABRIC = "fi_info: 1.17.0\nlibfabric: 1.17.0\nlibfabric api: 1.17\n"  # Debian 12

NVIDIA = {
    # bottlerocket-os/bottlerocket-core-kit pull request 834
    "580": """Thu Feb 19 19:24:54 2026
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 580.126.09             Driver Version: 580.126.09     CUDA Version: 13.0     |
+-----------------------------------------+------------------------+----------------------+
|   0  NVIDIA A100-SXM4-40GB          On  |   00000000:10:1C.0 Off |                    0 |
""",
    # filecoin-project/bellperson issue 227
    "470": """| NVIDIA-SMI 470.57.02    Driver Version: 470.57.02    CUDA Version: 11.4     |
|   0  NVIDIA GeForce ...  On   | 00000000:41:00.0 Off |                  N/A |
""",
    # the driver is older than nvidia-smi: FoldingAtHome/fah-issues issue 1557
    "418": "| NVIDIA-SMI 450.66       Driver Version: 418.67       CUDA Version: 10.1     |\n",
    "failed": "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that "
    "the latest NVIDIA driver is installed and running.\n",
}
UNKNOWN_FIELD = 'Field "compute_cap" is not a valid field to query.\n'

LDD = {
    "2.41": "ldd (Debian GLIBC 2.41-12+deb13u4) 2.41\nCopyright (C) 2024 Free Software Foundation, Inc.\n",
    "2.34": "ldd (GNU libc) 2.34\nCopyright (C) 2021 Free Software Foundation, Inc.\n",
    "2.35": "ldd (Ubuntu GLIBC 2.35-0ubuntu3.1) 2.35\n",
    "musl": "musl libc (x86_64)\nVersion 1.2.4\nDynamic Program Loader\n",
}
RUNTIME = {
    "apptainer": "apptainer version 1.4.5\n",
    "singularity-ce": "singularity-ce version 3.11.4\n",
    "singularity": "singularity version 3.8.7-1.el7\n",
    "singularity 2": "2.6.1-dist\n",  # which has no other words
}

_LSCPU = """\
Architecture:                    {machine}
CPU op-mode(s):                  64-bit
Byte Order:                      Little Endian
CPU(s):                          72
Model name:                      {model}
"""
LSCPU = {
    "x86-64": _LSCPU.format(machine="x86_64", model="AMD EPYC 7763 64-Core Processor")
    + "Flags:                           fpu sse4_2 avx f16c bmi1 avx2 bmi2 fma clflushopt\n",
    "Ivy Bridge": _LSCPU.format(machine="x86_64", model="Intel(R) Xeon(R) CPU E5-2650 v2 @ 2.60GHz")
    + "Flags:                           fpu sse4_1 sse4_2 popcnt aes xsave avx f16c rdrand\n",
    "Grace": _LSCPU.format(machine="aarch64", model="Neoverse-V2")
    + "Flags:                           fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics sve2 bf16\n",
    "without flags": _LSCPU.format(machine="x86_64", model="-"),
}
