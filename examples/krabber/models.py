"""Everything that lies in Krabber's table. The marks of its background work lie in the same table, beside it.

| item         | partition key      | sort key   |
| krab         | krab#<name>        | krab       |
| following    | followers#<krab>   | <follower> |
| molt         | molts#<author>     | <molt id>  |
| trench entry | trench#<krab>      | <molt id>  |

A trench entry's key says whose Trench it is and which molt it holds, and nothing else. So writing it a second time
writes the same item again, and nobody can tell.
"""

import os

from pynamodb.attributes import UnicodeAttribute
from pynamodb.models import Model

TABLE = os.environ.get("DYNADURABLE_TABLE") or "krabber"  # a deployment names its own


class Item(Model):
    pk = UnicodeAttribute(hash_key=True)
    sk = UnicodeAttribute(range_key=True)


class Krab(Item):
    """Somebody who posts and follows."""

    class Meta:
        table_name = TABLE

    name = UnicodeAttribute()

    @classmethod
    def named(cls, name: str) -> "Krab":
        return cls(f"krab#{name}", "krab", name=name)


class Following(Item):
    """One krab follows another. All followers of a krab lie together, in the order of their names."""

    class Meta:
        table_name = TABLE

    @classmethod
    def of(cls, krab: str, *, follower: str) -> "Following":
        return cls(f"followers#{krab}", follower)


class Molt(Item):
    """What a krab has posted."""

    class Meta:
        table_name = TABLE

    author = UnicodeAttribute()
    text = UnicodeAttribute()

    @classmethod
    def by(cls, author: str, *, molt_id: str, text: str) -> "Molt":
        return cls(f"molts#{author}", molt_id, author=author, text=text)


class TrenchEntry(Item):
    """A molt in the Trench of a krab."""

    class Meta:
        table_name = TABLE

    author = UnicodeAttribute()

    @classmethod
    def of(cls, krab: str, *, author: str, molt_id: str) -> "TrenchEntry":
        return cls(f"trench#{krab}", molt_id, author=author)
