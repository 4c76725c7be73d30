"""All that reaches inside Streamlit, by names that another version may lack; a contract test asks each.

What stands here has no switch: it guards memory, and nothing public tells it. No speed is bought here.

`runtime.get_instance().uploaded_file_mgr.file_storage`: uploads are counted by window and in all; where the
name is gone, no upload is taken.
"""

from streamlit.runtime import get_instance


class UncountedError(Exception):
    """What visitors have uploaded cannot be counted in this version of Streamlit."""


def held_uploads() -> dict[str, list[int]]:
    """Bytes of each file that visitors have uploaded, by their windows; raises UncountedError."""
    try:
        windows = get_instance().uploaded_file_mgr.file_storage
        return {
            name: [len(file.data) for file in list(files.values())] for name, files in list(windows.items())
        }
    except (AttributeError, RuntimeError, TypeError) as error:
        raise UncountedError from error
