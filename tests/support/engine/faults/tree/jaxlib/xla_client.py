"""Stand-in for what starts a plugin: there is no GPU."""

REASON = "FAILED_PRECONDITION: No visible GPU devices."


def pjrt_plugin_initialized(name):
    return True


def make_c_api_client(name, options, client):
    raise RuntimeError(REASON)
