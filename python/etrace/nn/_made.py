"""What pickles name: functions of the extension cannot be pickled themselves."""

import importlib
import operator


def again(module: str, function: str, arguments: tuple):
    """init.normal(0.1), surrogate.sigmoid(4.0), SynapticCurrent.coba(0.0) …"""
    return operator.attrgetter(function)(importlib.import_module(module))(*arguments)
