"""A seccomp filter, written by hand: the system calls that a student's kernel may not make.

A list of allowed calls would be a stricter fence. But Python, torch and libzmq use about 150 calls,
which depend on the version of the C library, and a call missing in that list would cost a student
points. So this is a list of refused calls, and it is long: calls that open files without a path,
look into other processes, mount, load code into the operating system, reach others over a socket,
or make memory that no limit counts. Calls that are newer than this list are answered as if the
operating system did not have them; the C library then works without them. This file uses the
standard library only, because sandbox.py loads it by its path.

Source: the Linux kernel's documentation, userspace-api/seccomp_filter, and its unistd.h.
"""

import ctypes
import errno
import platform
import struct
import sys

__all__ = ["missing", "program", "refuse", "refuse_addresses"]

LAST = 462  # mseal of Linux 6.10; newer calls are not known here
# name: number on x86-64, number in asm-generic/unistd.h (64-bit ARM and RISC-V)
NUMBERS: dict[str, tuple[int | None, int | None]] = {
    # files without a path, other processes, other namespaces
    "open_by_handle_at": (304, 265),
    "name_to_handle_at": (303, 264),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "process_mrelease": (448, 448),
    "pidfd_getfd": (438, 438),
    "pidfd_open": (434, 434),
    "pidfd_send_signal": (424, 424),
    "kcmp": (312, 272),
    "setns": (308, 268),
    "unshare": (272, 97),
    "tkill": (200, 130),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    "move_pages": (279, 239),
    "migrate_pages": (256, 238),
    # mounts and roots
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    # the operating system itself, and its larger surfaces
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "create_module": (174, None),
    "query_module": (178, None),
    "get_kernel_syms": (177, None),
    "nfsservctl": (180, 42),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "reboot": (169, 142),
    "acct": (163, 89),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "clock_adjtime": (305, 266),
    "adjtimex": (159, 171),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "syslog": (103, 116),
    "lookup_dcookie": (212, 18),
    "fanotify_init": (300, 262),
    "fanotify_mark": (301, 263),
    "personality": (135, 92),
    "vhangup": (153, 58),
    "vmsplice": (278, 75),
    "iopl": (172, None),
    "ioperm": (173, None),
    "modify_ldt": (154, None),
    "uselib": (134, None),
    "ustat": (136, None),
    "sysfs": (139, None),
    "_sysctl": (156, None),
    # others on this machine, and memory that no limit counts
    "connect": (42, 203),
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "shmget": (29, 194),
    "msgget": (68, 186),
    "semget": (64, 190),
    "mq_open": (240, 180),
}
# answered with "no such call"; then the C library uses an older call whose arguments are visible
OLDER: dict[str, tuple[int | None, int | None]] = {"clone3": (435, 435), "close_range": (436, 436)}
# allowed with some arguments only
WATCHED: dict[str, tuple[int | None, int | None]] = {
    "clone": (56, 220),
    "close": (3, 57),
    "dup2": (33, None),
    "dup3": (292, 24),
    "fcntl": (72, 25),
    "ioctl": (16, 29),
    "kill": (62, 129),
    "tgkill": (234, 131),
    "socket": (41, 198),
    "sendmsg": (46, 211),
    "sendmmsg": (307, 269),
}
# machine: its number in the filter, and its column in the tables
MACHINES = {
    "x86_64": (0xC000003E, 0),
    "aarch64": (0xC00000B7, 1),
    "riscv64": (0xC00000F3, 1),
}
_ALLOW, _KILL, _ERROR = 0x7FFF0000, 0x80000000, 0x00050000
_LOAD, _EQUAL, _ANY_BIT, _ABOVE, _AND, _RETURN = 0x20, 0x15, 0x45, 0x25, 0x54, 0x06
_NAMESPACES = 0x7E020000  # of clone's flags
_FAST_OPEN = 0x20000000  # of sendmsg's flags: connects
_Line = tuple[int, int, int, int]


def missing() -> str:
    """The reason why this machine can have no filter; an empty text if it can.

    >>> from fltoolkit.assignments.sandbox import fences
    >>> fences()["calls"].startswith("no") == bool(missing())
    True
    """
    machine = platform.machine()
    if sys.platform != "linux":
        return "Linux only"
    if machine not in MACHINES or struct.calcsize("P") != 8:
        return f"this machine is {machine!r}; known are {', '.join(MACHINES)}, in 64 bits"
    if ctypes.CDLL(None).prctl(21, 0, 0, 0, 0) < 0:
        return "this Linux was built without seccomp"
    return ""


def program(machine: str, pid: int, notes: int) -> list[_Line]:
    """The filter as instructions: code, jump if true, jump if false, constant.

    Args:
        machine: one of `MACHINES`.
        pid: the only process to which signals may be sent.
        notes: a file descriptor that may not be closed or replaced.

    >>> lines = program("x86_64", pid=1, notes=3)
    >>> hex(lines[-1][-1])  # the last instruction allows every call that was not refused before
    '0x7fff0000'
    """
    arch, column = MACHINES[machine]
    no = (_RETURN, 0, 0, _ERROR | errno.EPERM)
    unknown = (_RETURN, 0, 0, _ERROR | errno.ENOSYS)
    number: _Line = (_LOAD, 0, 0, 0)
    lines: list[_Line] = [(_LOAD, 0, 0, 4), (_EQUAL, 1, 0, arch), (_RETURN, 0, 0, _KILL), number]
    # on x86-64 this also refuses the calls of x32, whose numbers have bit 30
    lines += [(_ABOVE, 0, 1, LAST), unknown]
    for table, answer in ((NUMBERS, no), (OLDER, unknown)):
        for numbers in table.values():
            if (call := numbers[column]) is not None:
                lines += [(_EQUAL, 0, 1, call), answer]

    def argument(place: int) -> _Line:
        return (_LOAD, 0, 0, 16 + 8 * place)  # the lower half: both machines store it first

    def never(place: int, *values: int) -> list[_Line]:
        return [argument(place), *(x for v in values for x in ((_EQUAL, 0, 1, v), no))]

    def only(place: int, *values: int) -> list[_Line]:
        tests = [(_EQUAL, len(values) - k, 0, v) for k, v in enumerate(values)]
        return [argument(place), *tests, no]

    def bits(place: int, mask: int) -> list[_Line]:
        return [argument(place), (_ANY_BIT, 0, 1, mask), no]

    streams = [argument(1), (_AND, 0, 0, 15), (_EQUAL, 1, 0, 1), no]
    rules = {
        "clone": bits(0, _NAMESPACES),
        "close": never(0, notes),
        "dup2": never(1, notes),
        "dup3": never(1, notes),
        "fcntl": never(1, 8, 10, 15),  # signals to others: F_SETOWN, F_SETSIG, F_SETOWN_EX
        "ioctl": never(1, 0x5412, 0x541C),  # type into a terminal: TIOCSTI, TIOCLINUX
        "kill": only(0, pid, 0),
        "tgkill": only(0, pid),
        # local sockets or TCP, as streams only, because other types can send without connecting;
        # and netlink, because libzmq uses it to find this machine's addresses
        "socket": [
            *only(0, 1, 2, 10, 16),
            (_EQUAL, len(streams), 0, 16),
            *streams,
        ],
        "sendmsg": bits(2, _FAST_OPEN),
        "sendmmsg": bits(3, _FAST_OPEN),
    }
    for name, numbers in WATCHED.items():
        if (call := numbers[column]) is not None:
            body = [*rules[name], number]
            lines += [(_EQUAL, 0, len(body), call), *body]
    return [*lines, (_RETURN, 0, 0, _ALLOW)]


def _install(lines: list[_Line]) -> bool:
    """Install a filter for all threads of this process; it cannot be removed."""
    code = b"".join(struct.pack("HBBI", *line) for line in lines)
    memory = ctypes.create_string_buffer(code, len(code))
    about = struct.pack("HxxxxxxP", len(lines), ctypes.addressof(memory))
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(38, 1, 0, 0, 0)  # no new privileges
    number = (317, 277)[MACHINES[platform.machine()][1]]  # seccomp: set a filter, all threads
    return bool(libc.syscall(number, 1, 1, ctypes.c_char_p(about)) == 0)


def refuse(notes: int, pid: int) -> bool:
    """Install the filter; it cannot be removed. Returns False if this machine can have none."""
    return not missing() and _install(program(platform.machine(), pid, notes))


def refuse_addresses() -> bool:
    """Forbid all threads to give a socket an address, or to send to an address.

    Call it when the kernel has made its own sockets. A local address is a file, and a message to
    such a file could reach another program.
    """
    if missing():
        return False
    bind, sendto = ((49, 44), (200, 206))[MACHINES[platform.machine()][1]]
    no = (_RETURN, 0, 0, _ERROR | errno.EPERM)
    to = 16 + 8 * 4  # sendto's fifth argument; without an address it is a plain send
    lines = [(_LOAD, 0, 0, 0), (_EQUAL, 0, 1, bind), no, (_EQUAL, 0, 5, sendto)]
    lines += [(_LOAD, 0, 0, to), (_EQUAL, 0, 2, 0), (_LOAD, 0, 0, to + 4), (_EQUAL, 1, 0, 0), no]
    return _install([*lines, (_RETURN, 0, 0, _ALLOW)])
