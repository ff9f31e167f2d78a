"""URLs of databases, made from other ones (pure)."""

from __future__ import annotations

from urllib.parse import quote, urlencode

from psycopg.conninfo import conninfo_to_dict


def url_of(url: str, database: str) -> str:
    """The URL of another database on the same server, with the same user and options.

    Args:
        url: libpq URL or key=value string.
        database: the other database's name.
    """
    parts = {name: str(value) for name, value in conninfo_to_dict(url).items() if value is not None}
    parts.pop("dbname", None)
    user, password = parts.pop("user", ""), parts.pop("password", "")
    login = quote(user, safe="") + (f":{quote(password, safe='')}" if password else "")
    # a socket's folder and several hosts can't stand before the path; as options they mean the same
    place = ""
    if not {"/", ","} & set(parts.get("host", "")):
        place = parts.pop("host", "") + (f":{parts.pop('port')}" if "port" in parts else "")
    options = f"?{urlencode(parts, quote_via=quote)}" if parts else ""
    return f"postgresql://{login}{'@' if login else ''}{place}/{quote(database, safe='')}{options}"
