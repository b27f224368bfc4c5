"""An image as our steps make it, with pip as its only wheel, and faults in it for the checks of the ledger.

Nothing is started in these images: they are read from outside. Many share a layer, which is read once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

SITE = "/opt/stack/lib/python3.13/site-packages"
OF_PIP = f"{SITE}/pip/_internal/main.py"

GOOD = r"""FROM BASE_IMAGE
RUN python3 -m venv /opt/stack && rm -rf /var/cache/ldconfig/aux-cache \
    && /opt/stack/bin/python -m compileall -qq -f --invalidation-mode checked-hash /opt/stack/lib
RUN for tool in gcc g++; do ln -s /usr/bin/$tool-GCC /usr/local/bin/$tool; done \
    && ln -s gcc /usr/local/bin/cc && ln -s g++ /usr/local/bin/c++ && rm -rf /var/log/apt \
    && useradd --create-home --uid 1000 --shell /bin/bash train && install -d -o train -g train /workspace
COPY own /tmp/own
RUN bash -euo pipefail /tmp/own/install.sh && rm -r /tmp/own
COPY --chmod=0755 start /opt/ours/start
COPY --chmod=0644 start /opt/ours/settings
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted:
    """``command`` is run by root; exactly ``red`` goes red, and ``says`` is in its detail."""

    name: str
    command: str
    red: str
    says: str


def plant(name: str, command: str, red: str, says: str) -> Planted:
    return Planted(name=name, command=command, red=red, says=says)


ARM = f"{SITE}/planted/_c.so"
FOR_ARM = (
    f"mkdir -p {SITE}/planted {SITE}/planted-1.dist-info && cd {SITE} "
    "&& printf '\\177ELF\\2\\1\\1%09d\\3\\0\\267\\0' 0 > planted/_c.so "
    '&& python3 -c "import base64, hashlib; '
    "digest = hashlib.sha256(open('planted/_c.so', 'rb').read()).digest(); "
    "text = base64.urlsafe_b64encode(digest).decode().rstrip('='); "
    "print(f'planted/_c.so,sha256={text},20'); "
    "print('planted-1.dist-info/RECORD,,')\" > planted-1.dist-info/RECORD"
)
"""Installs a wheel that is whole, and has a library for 64-bit Arm alone."""

KEY = "/usr/src/planted.key"
"""Where a private key is while the image is built."""

FAULTS = (
    plant("changed-source", f"echo '# x' >> {OF_PIP}", "ledger.wheels", "main.py is not as pip"),
    plant("removed-source", f"rm {SITE}/pip/_vendor/certifi/cacert.pem",
          "ledger.wheels", "cacert.pem of pip"),
    plant("changed-with-its-record",
          f"echo '# x' >> {OF_PIP} && python3 -c \"import base64, csv, glob, hashlib; "
          f"path = glob.glob('{SITE}/pip-*.dist-info/RECORD')[0]; lines = list(csv.reader(open(path))); "
          f"digest = base64.urlsafe_b64encode(hashlib.sha256(open('{OF_PIP}', 'rb').read()).digest()); "
          "text = 'sha256=' + digest.decode().rstrip('='); "
          "[line.__setitem__(1, text) for line in lines if line[0] == 'pip/_internal/main.py']; "
          "csv.writer(open(path, 'w')).writerows(lines)\"",
          "ledger.wheels", "main.py is of another step than the other files of pip"),
    plant("unchecked-byte-code",
          f"/opt/stack/bin/python -m compileall -qq -f --invalidation-mode unchecked-hash {OF_PIP}",
          "ledger.byte-code", "is loaded without a look"),
    plant("other-byte-code",
          f"cd {SITE}/pip/_internal/__pycache__ && printf x >> main.cpython-313.pyc",
          "ledger.byte-code", "main.cpython-313.pyc is of another step"),
    plant("removed-cc1plus", "rm /usr/libexec/gcc/*/*/cc1plus", "ledger.packages", "cc1plus of g++"),
    plant("changed-conffile", "echo 'Port 22' >> /etc/ssh/ssh_config",
          "ledger.packages", "/etc/ssh/ssh_config"),
    plant("program-as-link", "ln -sf /usr/bin/mawk /usr/bin/env",
          "ledger.packages", "/usr/bin/env is a link"),
    plant("other-gcc-as-cc", "ln -sf /usr/bin/c99-gcc /usr/local/bin/cc",
          "ledger.links", "leads to /usr/bin/c99"),
    plant("other-shell", "ln -sf mawk /usr/bin/sh", "ledger.links", "/usr/bin/sh of dash leads to mawk"),
    plant("other-alternative", "ln -sf /usr/bin/perl /etc/alternatives/awk",
          "ledger.links", "alternatives/awk"),
    plant("sshd-configuration", "echo 'PermitRootLogin yes' >> /etc/ssh/sshd_config", "ledger.declared",
          "/etc/ssh/sshd_config is no copy"),
    plant("pam", "echo 'auth optional pam_exec.so /x' >> /etc/pam.d/common-auth",
          "ledger.declared", "common-auth"),
    plant("activate", "echo 'export LD_PRELOAD=/x' >> /opt/stack/bin/activate",
          "ledger.declared", "activate"),
    plant("changed-copy", "echo x >> /opt/ours/settings",
          "ledger.declared", "/opt/ours/settings is not what"),
    plant("removed-copy", "rm /opt/ours/start", "ledger.declared",
          "/opt/ours/start is missing"),
    plant("skeleton", "echo 'alias ssh=x' >> /home/train/.bashrc", "ledger.declared", "no copy of /etc/skel"),
    plant("for-arm", FOR_ARM, "ledger.platform", f"{ARM} is for 64-bit Arm"),
    plant("setuid", "cp /usr/bin/find /usr/local/bin/own && chmod 4755 /usr/local/bin/own", "ledger.modes",
          "/usr/local/bin/own is setuid"),
    plant("setuid-of-a-package", "chmod u+s /usr/bin/find", "ledger.modes", "/usr/bin/find is setuid"),
    plant("writable", "chmod 777 /opt/stack", "ledger.modes", "/opt/stack can be written by everyone"),
    plant("of-the-user", "chown train /opt/stack/bin/pip", "ledger.modes", "belongs to train:root"),
    plant("not-readable", f"chmod 600 {OF_PIP}", "ledger.modes", "cannot be read by everyone"),
    plant("second-root", "echo 'toor:x:0:0::/root:/bin/bash' >> /etc/passwd", "ledger.accounts", "'toor'"),
    plant("password", "sed -i 's/^root:[^:]*/root:$y$j9T$x/' /etc/shadow",
          "ledger.accounts", "password of 'root'"),
    plant("preload", "echo /usr/lib/x.so > /etc/ld.so.preload", "ledger.undeclared", "/etc/ld.so.preload"),
    plant("nccl", "echo NCCL_P2P_DISABLE=1 > /etc/nccl.conf", "ledger.undeclared", "/etc/nccl.conf"),
    plant("sitecustomize", f"touch {SITE}/sitecustomize.py", "ledger.undeclared", "sitecustomize.py"),
    plant("authorized",
          "install -d -m 700 -o train /home/train/.ssh && echo x > /home/train/.ssh/authorized_keys",
          "ledger.undeclared", "authorized_keys"),
    plant("many", "mkdir /srv/many && cd /srv/many && seq 500 | xargs touch", "ledger.undeclared",
          "/srv/many: 501 names, each belongs to nothing: 1, 10, 100 and 497 more"),
    plant("device", "mknod /srv/disk b 8 0", "ledger.undeclared", "/srv/disk"),
    plant("token-in-a-removed-file", "true", "ledger.credentials", "a netrc in /root/.netrc"),
    plant("key-under-another-name", f"cp {KEY} /var/lib/notes", "static.private-key", "/var/lib/notes"),
    plant("key-of-root", f"cp {KEY} /root/notes", "static.private-key", "/root/notes"),
    plant("key-in-an-archive", f"tar --create --gzip --file /usr/share/data.tgz {KEY}",
          "static.private-key", "/usr/share/data.tgz"),
)  # fmt: skip

TOGETHER = (
    ("changed-source", "removed-cc1plus", "sshd-configuration", "setuid", "second-root", "nccl",
     "key-under-another-name", "device"),
    ("changed-with-its-record", "changed-conffile", "pam", "setuid-of-a-package", "password", "sitecustomize",
     "key-of-root", "many"),
    ("unchecked-byte-code", "program-as-link", "activate", "writable", "preload", "authorized",
     "key-in-an-archive"),
    ("other-byte-code", "removed-source", "other-gcc-as-cc", "other-alternative", "skeleton", "of-the-user",
     "token-in-a-removed-file"),
    ("not-readable", "changed-copy", "removed-copy", "other-shell"),
)  # fmt: skip
"""Those that share an image, named after the first, in this order: to read an image takes seconds."""

IN_A_SIF = (
    "changed-source",
    "removed-cc1plus",
    "second-root",
    "setuid",
    "preload",
    "key-of-root",
    "authorized",
)
"""Those that are planted together in one SIF: each is to be named there too."""


def images(*, alone: bool) -> dict[str, tuple[Planted, ...]]:
    """Every fault in one of them; ``alone``: each in one of its own."""
    groups: Sequence[tuple[str, ...]] = () if alone else TOGETHER
    named = {fault.name: fault for fault in FAULTS}
    shared = {name for group in groups for name in group}
    found = {group[0]: tuple(named[name] for name in group) for group in groups}
    return found | {name: (fault,) for name, fault in named.items() if name not in shared}


def dockerfile(faults: Sequence[Planted]) -> str:
    return "FROM good\n" + "".join(map(lines, faults))


def lines(fault: Planted) -> str:
    """What is built on the good image; a file that a layer has to have and that the next one removes."""
    removed = "COPY netrc /root/.netrc\nRUN rm /root/.netrc\n" if fault.red == "ledger.credentials" else ""
    key = f"--mount=type=bind,source=key,target={KEY} " if "key-" in fault.name else ""
    return f"{removed}RUN {key}{fault.command}\n"
