"""Damages batches in a broker's log, as a disk does. The broker may run: it hands on what is stored."""

import struct

from aiokafka.record.util import calc_crc32c

from streams.live.data.broken import batches

CRC, ATTRIBUTES, RECORDS = 17, 21, 61
"""Where these are in a batch: the checksum covers all from the attributes on."""


def damage(broker, topic, number, *, mend, place=RECORDS, by=0x7F, partition=0):
    """Change a byte of the topic's batch of that number; `mend`: its checksum says that all is well."""
    (log,) = broker.folder.rglob(f"{topic}-{partition}/*.log")
    with log.open("r+b") as file:
        stored = [one.stored for one in batches(file.read(), 2**62)]
        bad = bytearray(stored[number])
        bad[place] ^= by
        if mend:
            bad[CRC:ATTRIBUTES] = struct.pack(">I", calc_crc32c(bytes(bad[ATTRIBUTES:])))
        file.seek(sum(map(len, stored[:number])))
        file.write(bad)
