"""The system calls that a room may not make, by their numbers on x86_64 and aarch64; None: no such call
there.

From 424 on the numbers are equal on all architectures, and only the listed calls are allowed: calls of later
systems fail as they would on an older one.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

FIRST_COMMON = 424

COMMON_ALLOWED = {
    "close_range": 436,
    "faccessat2": 439,
    "epoll_pwait2": 441,
    "futex_waitv": 449,
    "map_shadow_stack": 453,  # glibc, where the processor has shadow stacks
    "futex_wake": 454,
    "futex_wait": 455,
    "futex_requeue": 456,
    "mseal": 462,
}

# allowed or refused by their arguments, in seccomp.py
EXAMINED: Mapping[str, tuple[int | None, int | None]] = MappingProxyType(
    {
        "clone": (56, 220),
        "fcntl": (72, 25),
        "ioctl": (16, 29),
        "kill": (62, 129),
        "mmap": (9, 222),
        "open": (2, None),
        "openat": (257, 56),
        "prctl": (157, 167),
        "prlimit64": (302, 261),
        "tgkill": (234, 131),
    }
)

# Reading symbolic links, which Landlock does not restrict. The filter answers that the path is no link, so
# that realpath(3) takes it as it is spelled.
LINKS: Mapping[str, tuple[int | None, int | None]] = MappingProxyType(
    {
        "readlink": (89, None),
        "readlinkat": (267, 78),
    }
)

REFUSED: Mapping[str, tuple[int | None, int | None]] = MappingProxyType(
    {
        # network, and sockets of any kind; the room's own socket is open already
        "socket": (41, 198),
        "socketpair": (53, 199),
        "connect": (42, 203),
        "bind": (49, 200),
        "listen": (50, 201),
        "accept": (43, 202),
        "accept4": (288, 242),
        # other programs and processes
        "execve": (59, 221),
        "execveat": (322, 281),
        "fork": (57, None),
        "vfork": (58, None),
        "ptrace": (101, 117),
        "process_vm_readv": (310, 270),
        "process_vm_writev": (311, 271),
        "kcmp": (312, 272),
        "tkill": (200, 130),
        "rt_sigqueueinfo": (129, 138),
        "rt_tgsigqueueinfo": (297, 240),
        "setpgid": (109, 154),
        "setsid": (112, 157),
        "setpriority": (141, 140),
        "ioprio_set": (251, 30),
        "sched_setaffinity": (203, 122),
        "sched_setscheduler": (144, 119),
        "sched_setparam": (142, 118),
        "sched_setattr": (314, 274),
        "migrate_pages": (256, 238),
        "move_pages": (279, 239),
        # memory that no limit counts
        "memfd_create": (319, 279),
        "shmget": (29, 194),
        "shmat": (30, 196),
        "shmctl": (31, 195),
        "msgget": (68, 186),
        "msgsnd": (69, 189),
        "msgrcv": (70, 188),
        "msgctl": (71, 187),
        "semget": (64, 190),
        "semop": (65, 193),
        "semtimedop": (220, 192),
        "semctl": (66, 191),
        "mq_open": (240, 180),
        "mq_unlink": (241, 181),
        "mq_notify": (244, 184),
        # asynchronous input and output, which nothing here needs
        "io_setup": (206, 0),
        "io_destroy": (207, 1),
        "io_submit": (209, 2),
        "io_cancel": (210, 3),
        "io_getevents": (208, 4),
        "io_pgetevents": (333, 292),
        # its own limits and rights
        "setrlimit": (160, 164),
        "seccomp": (317, 277),
        "unshare": (272, 97),
        "setns": (308, 268),
        "personality": (135, 92),
        "setuid": (105, 146),
        "setgid": (106, 144),
        "setreuid": (113, 145),
        "setregid": (114, 143),
        "setresuid": (117, 147),
        "setresgid": (119, 149),
        "setfsuid": (122, 151),
        "setfsgid": (123, 152),
        "setgroups": (116, 159),
        "capset": (126, 91),
        # changes to files; Landlock refuses them too, where it is
        "creat": (85, None),
        "truncate": (76, 45),
        "rename": (82, None),
        "renameat": (264, 38),
        "renameat2": (316, 276),
        "link": (86, None),
        "linkat": (265, 37),
        "symlink": (88, None),
        "symlinkat": (266, 36),
        "unlink": (87, None),
        "unlinkat": (263, 35),
        "mkdir": (83, None),
        "mkdirat": (258, 34),
        "rmdir": (84, None),
        "mknod": (133, None),
        "mknodat": (259, 33),
        "chmod": (90, None),
        "fchmod": (91, 52),
        "fchmodat": (268, 53),
        "chown": (92, None),
        "fchown": (93, 55),
        "lchown": (94, None),
        "fchownat": (260, 54),
        "utime": (132, None),
        "utimes": (235, None),
        "utimensat": (280, 88),
        "futimesat": (261, None),
        "setxattr": (188, 5),
        "lsetxattr": (189, 6),
        "fsetxattr": (190, 7),
        "removexattr": (197, 14),
        "lremovexattr": (198, 15),
        "fremovexattr": (199, 16),
        # attributes and other facts about files, which Landlock does not restrict
        "getxattr": (191, 8),
        "lgetxattr": (192, 9),
        "fgetxattr": (193, 10),
        "listxattr": (194, 11),
        "llistxattr": (195, 12),
        "flistxattr": (196, 13),
        "statfs": (137, 43),
        "fstatfs": (138, 44),
        "ustat": (136, None),
        "name_to_handle_at": (303, 264),
        "open_by_handle_at": (304, 265),
        "fanotify_init": (300, 262),
        "fanotify_mark": (301, 263),
        "inotify_init": (253, None),
        "inotify_init1": (294, 26),
        "inotify_add_watch": (254, 27),
        # the system itself
        "mount": (165, 40),
        "umount2": (166, 39),
        "pivot_root": (155, 41),
        "chroot": (161, 51),
        "swapon": (167, 224),
        "swapoff": (168, 225),
        "bpf": (321, 280),
        "perf_event_open": (298, 241),
        "userfaultfd": (323, 282),
        "keyctl": (250, 219),
        "add_key": (248, 217),
        "request_key": (249, 218),
        "reboot": (169, 142),
        "kexec_load": (246, 104),
        "kexec_file_load": (320, 294),
        "create_module": (174, None),
        "init_module": (175, 105),
        "finit_module": (313, 273),
        "delete_module": (176, 106),
        "acct": (163, 89),
        "syslog": (103, 116),
        "quotactl": (179, 60),
        "nfsservctl": (180, 42),
        "lookup_dcookie": (212, 18),
        "settimeofday": (164, 170),
        "clock_settime": (227, 112),
        "adjtimex": (159, 171),
        "clock_adjtime": (305, 266),
        "sethostname": (170, 161),
        "setdomainname": (171, 162),
        "vhangup": (153, 58),
        "iopl": (172, None),
        "ioperm": (173, None),
        "modify_ldt": (154, None),
        "uselib": (134, None),
        "_sysctl": (156, None),
    }
)
