"""Parts of pages: what several share, or what is a part of one."""
