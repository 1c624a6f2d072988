"""Mount a folder at another path as a case-insensitive file system, as on macOS and Windows.

usage: folding_fs.py FOLDER MOUNTPOINT; ends when MOUNTPOINT is unmounted. Needs fusepy and libfuse 2.
"""

import errno
import os
import sys

from fuse import FUSE, FuseOSError, Operations


def guard(call):
    def guarded(*args, **options):
        try:
            return call(*args, **options)
        except OSError as error:
            raise FuseOSError(error.errno or errno.EIO) from None

    return guarded


class Folding(Operations):
    def __init__(self, root):
        self.root = root

    def real(self, path):
        """The path of an existing file whatever the case of its name, or of one that could be made."""
        found = self.root
        for name in filter(None, path.split("/")):
            exact = os.path.join(found, name)
            if not os.path.lexists(exact) and os.path.isdir(found):
                folded = name.casefold()
                exact = next(
                    (entry.path for entry in os.scandir(found) if entry.name.casefold() == folded), exact
                )
            found = exact
        return found

    def new(self, path):
        """The path for a new name: its folder as it is, the name as it was given."""
        folder, name = os.path.split(path)
        return os.path.join(self.real(folder), name)

    @guard
    def getattr(self, path, handle=None):
        status = os.fstat(handle) if handle is not None else os.lstat(self.real(path))
        keys = ("st_atime", "st_ctime", "st_gid", "st_mode", "st_mtime", "st_nlink", "st_size", "st_uid", "st_ino")
        return {key: getattr(status, key) for key in keys}

    @guard
    def readdir(self, path, handle):
        return [".", ".."] + os.listdir(self.real(path))

    @guard
    def access(self, path, mode):
        if not os.access(self.real(path), mode):
            raise FuseOSError(errno.EACCES)

    @guard
    def readlink(self, path):
        return os.readlink(self.real(path))

    @guard
    def mkdir(self, path, mode):
        os.mkdir(self.real(path), mode)

    @guard
    def rmdir(self, path):
        os.rmdir(self.real(path))

    @guard
    def unlink(self, path):
        os.unlink(self.real(path))

    @guard
    def symlink(self, path, target):
        os.symlink(target, self.real(path))

    @guard
    def link(self, path, target):
        os.link(self.real(target), self.real(path))

    @guard
    def rename(self, old, new):
        old, existing = self.real(old), self.real(new)
        # A rename replaces a name that differs only in case and keeps the new spelling.
        os.rename(old, existing)
        os.rename(existing, self.new(new))

    @guard
    def chmod(self, path, mode):
        os.chmod(self.real(path), mode)

    @guard
    def chown(self, path, user, group):
        os.chown(self.real(path), user, group, follow_symlinks=False)

    @guard
    def utimens(self, path, times=None):
        os.utime(self.real(path), times, follow_symlinks=False)

    @guard
    def truncate(self, path, length, handle=None):
        os.truncate(handle if handle is not None else self.real(path), length)

    @guard
    def open(self, path, flags):
        return os.open(self.real(path), flags)

    @guard
    def create(self, path, mode, info=None):
        return os.open(self.real(path), os.O_RDWR | os.O_CREAT, mode)

    @guard
    def read(self, path, size, offset, handle):
        return os.pread(handle, size, offset)

    @guard
    def write(self, path, data, offset, handle):
        return os.pwrite(handle, data, offset)

    @guard
    def release(self, path, handle):
        os.close(handle)

    @guard
    def fsync(self, path, only_data, handle):
        (os.fdatasync if only_data else os.fsync)(handle)

    @guard
    def statfs(self, path):
        status = os.statvfs(self.root)
        keys = ("f_bavail", "f_bfree", "f_blocks", "f_bsize", "f_favail", "f_ffree", "f_files", "f_flag", "f_frsize", "f_namemax")
        return {key: getattr(status, key) for key in keys}


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    # Use the underlying inode numbers, so that all names of a file report the same one.
    options = {"use_ino": True, "allow_other": True}
    FUSE(Folding(os.path.abspath(sys.argv[1])), sys.argv[2], foreground=True, nothreads=True, **options)
