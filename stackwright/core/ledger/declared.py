"""What is in an image and on no list of a package or a wheel: each line with its reason.

A line that is too broad hides a file: it says no more than what our steps and the packages' scripts make.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from stackwright.core.benchmarks import nccl_tests
from stackwright.core.ledger.entry import Kind

DISTRIBUTION = "the distribution's packages make it when they are installed"
STEP = "a step of our own makes it"
VENV = "venv makes it"
STATE = "the state of a program of the distribution, which nothing but it reads"
APPTAINER = "Apptainer makes it"
EMPTY = r"(?!)"
COMMENT = r"\s*|#.*"


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """``path``, ``target`` and ``line`` are patterns of the whole.

    Of a file: ``copy_of`` has the same content, but for ``changed``: a pattern, and what our step puts
    instead. ``line`` fits each of its lines but for comments, ``like`` is the name of a template of venv's;
    without one of these, any content does. ``of`` is the package whose scripts make it, or a benchmark of the
    row: without it the name belongs to nothing.
    """

    path: re.Pattern[str]
    why: str
    kind: Kind = Kind.FILE
    copy_of: str = ""
    changed: tuple[re.Pattern[str], str] | None = None
    line: re.Pattern[str] | None = None
    target: re.Pattern[str] | None = None
    like: str = ""
    of: str = ""


def _file(path: str, why: str, *, copy_of: str = "", line: str = "", like: str = "") -> Expected:
    fits = re.compile(f"{COMMENT}|{line}") if line else None
    return Expected(path=re.compile(path), why=why, copy_of=copy_of, line=fits, like=like)


def _link(path: str, target: str, why: str, of: str = "") -> Expected:
    return Expected(path=re.compile(path), why=why, kind=Kind.LINK, target=re.compile(target), of=of)


def _state(package: str, path: str, *folders: str) -> tuple[Expected, ...]:
    """Return what the scripts of a package make, which a row may add: state that nothing else reads."""
    found = Expected(path=re.compile(path), why=STATE, of=package)
    return (
        found,
        *(Expected(path=re.compile(folder), why=STATE, kind=Kind.FOLDER, of=package) for folder in folders),
    )


def _folder(path: str, why: str) -> Expected:
    return Expected(path=re.compile(path), why=why, kind=Kind.FOLDER)


def _device(path: str, why: str) -> Expected:
    return Expected(path=re.compile(path), why=why, kind=Kind.DEVICE)


PAM = (
    r"(account|auth|password|session)\s+(required|requisite|optional|sufficient|\[[a-z_0-9= ]+\])"
    r"\s+pam_(unix|deny|permit|umask|systemd|cap)\.so"
    r"( +(obscure|yescrypt|sha512|nullok|nullok_secure|use_authtok|try_first_pass))*\s*"
)
NVIDIA = r"/opt/stack/lib/python3\.\d+/site-packages/nvidia/(\w+/)?\w+/lib(64)?"
OF_VENV = (
    r"home = /usr/bin|include-system-site-packages = true|version = 3\.[\d.]+"
    r"|executable = /usr/bin/python3\.\d+|command = /usr/bin/python3(\.\d+)? -m venv /opt/stack"
)
ASKS_OUR_MODULE = (re.compile(r"^(?:passwd|group):.*$", re.MULTILINE), r"\g<0> caller")
UNIT = r"(/usr)?/lib/systemd/(system|user)/[^/]+"
BASE = "/usr/share/base-files"
OPENSSH = "/usr/share/openssh/sshd_config"

EXPECTED: tuple[Expected, ...] = (
    # What our steps make.
    _file("/etc/stackwright/row.json", f"{STEP}; static.row-file compares it with the row"),
    _file(r"/etc/ld\.so\.conf\.d/stackwright\.conf", STEP, line=NVIDIA),
    _link("/usr/local/bin/cc", "gcc", STEP),
    _link(r"/usr/local/bin/c\+\+", r"g\+\+", STEP),
    _link("/usr/local/bin/gcc", "/usr/bin/gcc-GCC", f"{STEP}; GCC is the row's"),
    _link(r"/usr/local/bin/g\+\+", r"/usr/bin/g\+\+-GCC", f"{STEP}; GCC is the row's"),
    _link(r"/opt/stack/lib/python3\.\d+/site-packages/nvidia/\w+/lib/libcudart\.so", r"libcudart\.so\.[\d.]+",
          f"{STEP}: some network plugins of NCCL look for it"),
    _file(r"/usr/local/lib/libnss_caller\.so\.2", f"{STEP}; static.user-module compiles it again"),
    Expected(path=re.compile(r"/usr/local/lib/libnccl-net-ofi\.so"), of="libfabric-bin",
             why=f"{STEP}; link.ofi-plugin and link.ofi-abi judge it"),
    Expected(path=re.compile(rf"{nccl_tests.FOLDER}/({'|'.join(nccl_tests.PROGRAMS)})"), of=nccl_tests.NAME,
             why=f"{STEP}; link.nccl-tests and those after it judge them"),
    Expected(path=re.compile(r"/etc/nsswitch\.conf"), why=f"{STEP}: it asks our module last",
             copy_of="/usr/share/libc-bin/nsswitch.conf", changed=ASKS_OUR_MODULE),
    _folder("/workspace", STEP),
    _folder("/home/train", "useradd makes it"),
    _file(r"/home/train/(\.bash_logout|\.bashrc|\.profile)", "useradd copies it", copy_of=r"/etc/skel/\1"),
    # What venv makes.
    _file(r"/opt/stack/\.gitignore", VENV, line=r"\*"),
    _file(r"/opt/stack/pyvenv\.cfg", VENV, line=OF_VENV),
    _file(r"/opt/stack/bin/((?i:activate)(\.\w+)?)", VENV, like=r"\1"),
    _file(r"/opt/stack/share/python-wheels/(.+\.whl)", VENV, copy_of=r"/usr/share/python-wheels/\1"),
    _link(r"/opt/stack/bin/python3?(\.\d+)?", r"(/usr/bin/)?python3(\.\d+)?", VENV),
    _link("/opt/stack/lib64", "lib", VENV),
    _folder("/opt/stack/include(/python3.*)?|/opt/stack/share", VENV),
    # Who may log in: the content is judged by ledger.accounts.
    _file("/etc/(passwd|group|shadow|gshadow|subuid|subgid)-?", DISTRIBUTION),
    # Copies of what packages have.
    _file("/etc/(motd|profile)", DISTRIBUTION, copy_of=rf"{BASE}/\1"),
    _file(r"/root/\.(bashrc|profile)", DISTRIBUTION, copy_of=rf"{BASE}/dot.\1"),
    _file("/usr/share/info/dir", DISTRIBUTION, copy_of=f"{BASE}/info.dir"),
    _file(r"/etc/adduser\.conf", DISTRIBUTION, copy_of="/usr/share/adduser/adduser.conf"),
    _file("/etc/inputrc", DISTRIBUTION, copy_of="/usr/share/readline/inputrc"),
    _file("/etc/ssh/sshd_config", DISTRIBUTION, copy_of=OPENSSH),
    _file("/var/lib/ucf/cache/:etc:ssh:sshd_config", DISTRIBUTION, copy_of=OPENSSH),
    # Small files that scripts write, by what may be in them.
    _file(r"/etc/(environment|machine-id|security/opasswd|\.pwd\.lock)", DISTRIBUTION, line=EMPTY),
    _file("/etc/hosts", "an engine mounts its own over it", line=r"[0-9a-f.:]+(\s+(localhost|ip6-[a-z]+))+"),
    _file(r"/etc/resolv\.conf", "an engine mounts its own over it", line=EMPTY),
    _file("/etc/hostname", "an engine mounts its own over it", line=EMPTY),
    _folder("/run/secrets", "Podman's builder leaves it where the secrets of a step were"),
    _file(r"/etc/(fstab|hosts\.(allow|deny))", DISTRIBUTION, line=EMPTY),
    _file("/etc/networks", DISTRIBUTION, line=r"(default|loopback|link-local)\s+[\d.]+"),
    _file("/etc/shells", DISTRIBUTION, line="(/usr)?/bin/(sh|r?bash|dash|r?zsh|tmux|screen|fish)"),
    _file("/etc/pam.d/common-(account|auth|password|session|session-noninteractive)", DISTRIBUTION, line=PAM),
    _file(r"/etc/ca-certificates\.conf", DISTRIBUTION, line=r"mozilla/.+\.crt"),
    _file("/etc/python3/debian_config", DISTRIBUTION, line=r"\[DEFAULT\]|byte-compile = standard"),
    _file("/etc/timezone", DISTRIBUTION, line="Etc/UTC"),
    # Authorities: static.site-ca compares the bundle with the distribution's.
    _file(r"/etc/ssl/certs/ca-certificates\.crt", DISTRIBUTION),
    _link(r"/etc/ssl/certs/.+\.pem", r"/usr/share/ca-certificates/mozilla/.+\.crt", DISTRIBUTION),
    _link(r"/etc/ssl/certs/[0-9a-f]{8}\.\d", r"[^/]+\.pem", DISTRIBUTION),
    # Links that scripts make.
    _link("/(bin|sbin|lib(32|64|x32)?)", r"usr/(bin|sbin|lib(32|64|x32)?)", "programs are all in /usr"),
    _link("/usr/bin/touch", "/bin/touch", DISTRIBUTION),
    _link("/etc/default/locale", r"\.\./locale\.conf", DISTRIBUTION),
    _link(r"/etc/vconsole\.conf", "default/keyboard", DISTRIBUTION),
    _link("/etc/dpkg/origins/default", "debian", DISTRIBUTION),
    _link("/etc/localtime", "/usr/share/zoneinfo/Etc/UTC", DISTRIBUTION),
    _link("/etc/mtab", r"(\.\.)?/proc/(self/)?mounts", DISTRIBUTION),
    _link("/etc/rc[0-6S].d/[SK][0-9]{2}([a-z0-9.-]+)", r"\.\./init\.d/[a-z0-9.-]+", DISTRIBUTION),
    _link("/etc/runit/runsvdir/default/ssh", "/etc/sv/ssh", DISTRIBUTION),
    _link(r"/etc/systemd/(system|user)/(.+\.wants/)?[^/]+", UNIT, DISTRIBUTION),
    _link("/run/shm", "/dev/shm", DISTRIBUTION),  # noqa: S108 (a name in an image)
    _link("/usr/local/man", "share/man", DISTRIBUTION),
    _link(r"/var/lib/wtmpdb/wtmp\.db", r"\.\./\.\./log/wtmp\.db", DISTRIBUTION),
    _link("/var/log/README", r"\.\./\.\./usr/share/doc/systemd/README\.logs", DISTRIBUTION),
    _link("/var/spool/mail", r"\.\./mail", DISTRIBUTION),
    # State.
    _file(r"/etc/ld\.so\.cache", "ldconfig makes it of the libraries that are there"),
    _file(r"/var/lib/dpkg/(status|diversions|statoverride|available)(-old)?",
          "dpkg's own lists, by which its packages are compared"),
    _file(r"/var/lib/dpkg/info/(?P<package>[a-z0-9][a-z0-9.+-]*)(:\w+)?\.[a-z0-9]+",
          "dpkg's lists and scripts of a package that is there"),
    _file(r"/var/lib/dpkg/(arch(-native)?|cmethopt|lock(-frontend)?|info/format)", STATE),
    _file(r"/var/lib/dpkg/(alternatives/[^/]+|triggers/[\w.+/-]+)", STATE),
    _file(r"/var/lib/apt/(extended_states|lists/lock)|/var/cache/apt/archives/lock", STATE),
    _file(r"/var/cache/debconf/(config|passwords|templates)\.dat(-old)?", STATE),
    _file("/var/lib/pam/(account|auth|password|seen|session|session-noninteractive)", STATE),
    _file(r"/var/lib/(shells\.state|ucf/(hashfile|registry)(\.\d)?|systemd/catalog/database)", STATE),
    _file(r"/var/lib/python/python3\.\d+_installed|/run/adduser", STATE, line=EMPTY),
    _file(r"/var/lib/systemd/deb-systemd-(user-)?helper-(enabled|masked)/.+", STATE),
    # State of packages that a row may add.
    _link(r"/etc/fonts/conf\.d/[\w.-]+\.conf", r"(/usr/share/fontconfig|\.\.)/conf\.avail/[\w.-]+\.conf",
          DISTRIBUTION, of="fontconfig-config"),
    *_state("fontconfig", r"/var/cache/fontconfig/[\w.-]+|/usr(/local)?/share/fonts/(.+/)?\.uuid"),
    *_state("fontconfig-config", EMPTY, "/usr/local/share/fonts"),
    *_state("shared-mime-info", "/usr/share/mime/.+", "/usr/share/mime/.+"),
    *_state("libgdk-pixbuf-2.0-0", r"/usr/lib/[\w-]+/gdk-pixbuf-2\.0/[\d.]+/loaders\.cache"),
    *_state("libgvc6", r"/usr/lib/[\w-]+/graphviz/config6a"),
    *_state("gtk-update-icon-cache", r"/usr/share/icons/[\w.-]+/icon-theme\.cache"),
    *_state("zsh-common", EMPTY, "/usr/local/share/zsh(/site-functions)?"),
    *_state("locales", r"/etc/locale\.(gen|conf)"),
    *_state("git-lfs", "/etc/gitconfig"),
    *_state("man-db", "/var/lib/man-db/auto-update"),
    *_state("emacsen-common", "/var/lib/emacsen-common/state/.+", "/var/lib/emacsen-common/state/.+"),
    # Folders that are empty, or that hold what packages put there.
    _folder("/(media|mnt|opt|srv|etc/opt|var/opt|root/.ssh|etc/python3)", DISTRIBUTION),
    _folder("/usr/local(/(bin|etc|games|include|lib|libexec|sbin|share|src))?", DISTRIBUTION),
    _folder(r"/usr/local/(share/(man|ca-certificates)|lib/python3\.\d+(/dist-packages)?)", DISTRIBUTION),
    _folder("/run/(lock(/subsys)?|log|runit(/supervise)?|sendsigs.omit.d|sshd|user)", DISTRIBUTION),
    _folder("/run/systemd(/.+)?", DISTRIBUTION),
    _folder("/var/(cache|lib|log)/private|/var/cache/(ldconfig|debconf/tmp.ci)", DISTRIBUTION),
    _folder("/var/log/(journal|apt)|/var/mail", DISTRIBUTION),
    _folder(r"/var/lib/(systemd/[\w-]+|wtmpdb|dpkg/triggers|ucf/cache|python)", DISTRIBUTION),
    _folder(r"/etc/systemd/(system|user)/.+\.wants", DISTRIBUTION),
    # Devices, which each engine replaces by its own.
    _device("/dev/(console|full|null|ptmx|random|tty|urandom|zero)", DISTRIBUTION),
    _folder("/dev/(pts|shm)", DISTRIBUTION),
    _link("/dev/(fd|stdin|stdout|stderr|core)", "/proc/(self/fd(/[012])?|kcore)", DISTRIBUTION),
)  # fmt: skip

OF_A_SIF = (
    _file(r"/\.singularity\.d/(Singularity|labels\.json|runscript(\.help)?|startscript|test)", APPTAINER),
    _file(r"/\.singularity\.d/actions/(exec|run|shell|start|test)", APPTAINER),
    _file(r"/\.singularity\.d/env/(01-base|10-docker2singularity|90-environment|94-appsbase|95-apps|99-base"
          r"|99-runtimevars)\.sh", APPTAINER),
    _folder(r"/\.singularity\.d/libs", f"{APPTAINER}: it mounts the driver's libraries there"),
    _link(r"/\.(exec|run|shell|test)|/singularity|/environment",
          r"/?\.singularity\.d/(actions/(exec|run|shell|test)|runscript|env/90-environment\.sh)", APPTAINER),
)  # fmt: skip
"""What a SIF has besides."""

DEVICES = "/dev/(console|full|null|ptmx|random|tty|urandom|zero)"

OF_A_DEFINITION = (
    _file(DEVICES, "who builds it as an ordinary user gets a file for each device; Apptainer mounts its own",
          line=EMPTY),
    _folder(r"/scif(/(apps|data)(/\w+)?)?|/scif/apps/\w+/(bin|lib|scif(/env)?)|/scif/data/\w+/(input|output)",
            f"{APPTAINER} of the sections of an application"),
    _file(r"/scif/apps/\w+/scif/(env/01-base\.sh|labels\.json|runscript(\.help)?)",
          f"{APPTAINER} of the sections of an application"),
)  # fmt: skip
"""What a SIF has besides that was built from its row's definition file; its programs are compared by hash."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mode:
    """What a path is that others may not be. ``owner`` and ``group`` are patterns of names. Without ``modes``
    it is as all others but for its owner."""

    path: re.Pattern[str]
    modes: tuple[int, ...]
    owner: str
    group: str
    why: str


def _mode(path: str, owner: str, group: str, why: str, *modes: int) -> Mode:
    return Mode(path=re.compile(path), modes=modes, owner=owner, group=group, why=why)


MODES = (
    _mode("(/usr)?/bin/(chfn|chsh|gpasswd|newgrp|passwd|su|mount|umount)", "root", "root",
          "does for its user what only root may", 0o4755),
    _mode("/usr/bin/(chage|expiry)|(/usr)?/sbin/unix_chkpwd", "root", "shadow", "reads /etc/shadow", 0o2755),
    _mode("/usr/bin/ssh-agent", "root", "_?ssh", "no other process may read its memory", 0o2755),
    _mode("/usr/lib/openssh/ssh-keysign", "root", "root", "reads the keys of the host", 0o4755),
    _mode("/etc/g?shadow-?", "root", "shadow", "would hold passwords", 0o640),
    _mode("/(tmp|var/tmp|run/lock)", "root", "root", "for the files of everyone", 0o1777),
    _mode(r"/usr/local/lib/python3\.\d+/dist-packages/stackwright\.pth", "root", "root", STEP),
    _mode("/var/(local|mail)|/usr/local/lib/python3.*", "root", "root|staff|mail", DISTRIBUTION,
          0o2775, 0o755),
    _mode("/var/log/journal", "root", "systemd-journal", "its files get that group", 0o2755),
    _mode("/(var/cache/apt/archives|var/lib/apt/lists)/partial", "_apt|42", "root",
          "apt downloads as this user, who is 42 where the host's apt made the base", 0o700),
    _mode("/run/systemd/netif(/.*)?|/var/lib/systemd/network", "systemd-network", "systemd-network",
          DISTRIBUTION),
    _mode("/home/train|/workspace", "train", "train", "for any user that the image runs as", 0o1777),
    _mode(r"/home/train/\.(bash_logout|bashrc|profile)", "train", "train", "the user's own"),
    _mode(DEVICES, "root", "root|tty", "a device for everyone", 0o666),
)  # fmt: skip

OF_AN_ORDINARY_USER = "an ordinary user who unpacks the base cannot give it to the group shadow"
MODES_OF_A_DEFINITION = (
    _mode(
        "/usr/bin/(chage|expiry)|(/usr)?/sbin/unix_chkpwd", "root", "root|shadow", OF_AN_ORDINARY_USER, 0o2755
    ),
    _mode("/etc/g?shadow-?", "root", "root|shadow", OF_AN_ORDINARY_USER, 0o640),
)
"""Instead of those above, where the path is one of these."""

PRIVATE = re.compile(
    r"/root(/\.ssh)?|/etc/(\.pwd\.lock|ssl/private|security/opasswd|credstore(\.encrypted)?)|/etc/g?shadow-?"
    r"|/var/(cache|lib|log)/private|/var/cache/(ldconfig|debconf/passwords\.dat|apt/archives/lock)"
    r"|/var/lib/(dpkg/(lock(-frontend)?|triggers/Lock)|apt/lists/lock)"
    r"|/var/(cache/apt/archives|lib/apt/lists)/partial"
)
"""What only its owner reads; everything else is for everyone."""

DANGLING = (
    (re.compile("/etc/modules-load.d/modules.conf"), "of systemd, to a file of a package that is not there"),
    (re.compile("/etc/sv/ssh/(log/)?supervise"), "of runit, which makes the folder when it runs"),
    (re.compile("/usr/share/doc/libucx0/README"), "of UCX, to a file that its package compresses"),
    (re.compile("/usr/lib/systemd/.*"), "what systemd is not to start leads to /dev/null"),
)
"""Links of packages that lead to no file of a package."""

REMOVED = ("/var/log/*",)
"""What our steps take away of packages: logs of the build."""

REMOVED_BY_A_DEFINITION = (
    "/var/cache/apt/archives", "/var/cache/apt/archives/partial", "/var/lib/apt/lists/partial"
)  # fmt: skip
"""And those of a definition file: folders that apt makes again."""
