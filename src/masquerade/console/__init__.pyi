from .app import mount as mount
