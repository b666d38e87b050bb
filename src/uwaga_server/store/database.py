"""The tables of the server, in SQLite or another SQL database.

SQLite is used with a write-ahead log: readers and a writer do not block each other, and a killed process
leaves no partially written row. A power failure may undo the last commits but does not damage the file.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
from collections.abc import Iterator
from pathlib import Path

from uwaga.errors import MissingExtraError, SettingsError
from uwaga.files.handles import make_private
from uwaga_server.api_errors import StorageError

try:
    import sqlalchemy as sql
    from sqlalchemy import event, exc
except ImportError as error:
    raise MissingExtraError("`state` and `database` need SQLAlchemy: pip install 'uwaga[serve]'") from error

LOG = logging.getLogger("uwaga_server")
DATABASE_FILE = "state.sqlite"
MAX_ATTEMPTS = 50
"""Maximum number of attempts to make a change that conflicts with the changes of other processes."""
BUSY_TIMEOUT = 30
"""Maximum number of seconds to wait while another process writes to SQLite."""
MAX_GLOSSARY_LENGTH = 16 << 20
"""Maximum number of characters of a stored glossary, for databases with text types of several sizes."""

METADATA = sql.MetaData()
GLOSSARIES = sql.Table(
    "uwaga_glossaries",
    METADATA,
    sql.Column("id", sql.String(36), primary_key=True),
    sql.Column("owner", sql.String(64), nullable=False, index=True),
    sql.Column("version", sql.String(32), nullable=False),
    sql.Column("name", sql.Text, nullable=False),
    sql.Column("created", sql.String(32), nullable=False),
    sql.Column("dictionaries", sql.Text, nullable=False),
    sql.Column("size", sql.Integer, nullable=False),
    sql.Column("memory", sql.Integer, nullable=False),
    sql.Column("content", sql.Text(MAX_GLOSSARY_LENGTH), nullable=False),
)
USAGE = sql.Table(
    "uwaga_usage",
    METADATA,
    sql.Column("owner", sql.String(64), primary_key=True),
    sql.Column("characters", sql.BigInteger, nullable=False),
    sql.Column("documents", sql.BigInteger, nullable=False),
    sql.Column("since", sql.BigInteger, nullable=False),
)
DOCUMENTS = sql.Table(
    "uwaga_documents",
    METADATA,
    sql.Column("id", sql.String(32), primary_key=True),
    sql.Column("owner", sql.String(64), nullable=False, index=True),
    sql.Column("spec", sql.Text, nullable=False),
    sql.Column("state", sql.String(8), nullable=False, index=True),
    sql.Column("done", sql.Integer, nullable=False, default=0),
    sql.Column("total", sql.Integer, nullable=False, default=0),
    sql.Column("characters", sql.BigInteger),
    sql.Column("error", sql.Text, nullable=False, default=""),
    sql.Column("code", sql.String(64), nullable=False, default=""),
    sql.Column("created", sql.Float(53), nullable=False),
    sql.Column("started", sql.Float(53), nullable=False, default=0.0),
    sql.Column("ended", sql.Float(53), nullable=False, default=0.0),
    sql.Column("attempts", sql.Integer, nullable=False, default=0),
    sql.Column("journal", sql.BigInteger, nullable=False, default=0),
    sql.Column("downloaded", sql.Boolean, nullable=False, default=False),
)


def open_database(state: Path | None, database: str | None) -> sql.Engine:
    """Open the database of the server, and create missing tables.

    Args:
        state: the folder of ``state.sqlite``, created if missing; may be None if ``database`` is given.
        database: the URL of another database, such as ``postgresql://user:password@host/name``, or None.
    """
    if state is not None:
        make_folder(state, "state")
    try:
        url = (
            sql.make_url(database)
            if database
            else sql.URL.create("sqlite", database=f"{state}/{DATABASE_FILE}")
        )
    except exc.ArgumentError:
        message = "database: not an SQL URL; the format is DIALECT://USER:PASSWORD@HOST/NAME"
        raise SettingsError(message) from None
    is_sqlite = url.get_backend_name() == "sqlite"
    try:
        engine = sql.create_engine(
            url,
            pool_pre_ping=not is_sqlite,
            hide_parameters=True,
            connect_args={"timeout": BUSY_TIMEOUT} if is_sqlite else {},
        )
    except (ModuleNotFoundError, exc.NoSuchModuleError) as error:
        raise MissingExtraError(f"database: the driver is not installed: {error}") from None
    if is_sqlite:
        event.listen(engine, "connect", _use_write_ahead_log)
    setting, location = (
        ("database", url.render_as_string()) if database else ("state", f"{state}/{DATABASE_FILE}")
    )
    try:
        _create_tables(engine)
        missing_column = _missing_column(engine)
    except exc.SQLAlchemyError as error:
        engine.dispose()
        message = (
            f"{setting}: cannot write to {location}: {_short_reason(error)}; set `{setting}` to a writable"
        )
        raise SettingsError(f"{message} location") from None
    if missing_column:
        engine.dispose()
        message = (
            f"{setting}: {location} was created by another version of uwaga: "
            f"it has no column {missing_column}"
        )
        raise SettingsError(f"{message}; move it away, or set `{setting}` to another location")
    return engine


def make_folder(folder: Path, setting: str) -> None:
    """Create a folder that the server writes to, and make it inaccessible to other users.

    If the permissions cannot be changed, since the folder belongs to another user, a warning is logged.

    Args:
        folder: the folder.
        setting: the setting that names the folder, for messages.
    """
    try:
        folder.mkdir(0o700, parents=True, exist_ok=True)
        probe = folder / ".writable"
        probe.touch()
        probe.unlink(missing_ok=True)
    except OSError as error:
        raise SettingsError(
            f"{setting}: cannot write to {folder.absolute()}: {error.strerror}; "
            f"set `{setting}` to a writable folder"
        ) from None
    if not make_private(folder):
        path = str(folder.absolute())
        LOG.warning("folder open to other users", extra={"setting": setting, "path": path})


@contextlib.contextmanager
def storage_errors() -> Iterator[None]:
    """Convert errors of the database or the disk to :class:`StorageError`, and log the reason.

    The messages for clients contain neither the address of the database nor paths.
    """
    try:
        yield
    except exc.SQLAlchemyError as error:
        LOG.error("storage failed", extra={"reason": _short_reason(error)})
        raise StorageError("the server's database is unavailable; its log says why") from None
    except OSError as error:
        LOG.error("storage failed", extra={"reason": str(error)})
        reason = error.strerror or type(error).__name__
        raise StorageError(f"the server cannot store the data now: {reason}") from None


def owner_key(owner: str) -> str:
    """Return the key of an owner in the tables, a hash of 64 hexadecimal digits."""
    return hashlib.sha256(owner.encode("utf-8", "surrogatepass")).hexdigest()


def _create_tables(engine: sql.Engine) -> None:
    for table in METADATA.sorted_tables:
        try:
            table.create(engine, checkfirst=True)
        except exc.SQLAlchemyError:  # another process may have created it since the check
            table.create(engine, checkfirst=True)
    with engine.begin() as connection:  # fails if the database is read-only
        connection.execute(USAGE.delete().where(USAGE.c.owner == ""))


def _missing_column(engine: sql.Engine) -> str:
    """Return the name of a column that an existing table lacks; empty if no column is missing."""
    for table in METADATA.sorted_tables:
        existing_columns = {column["name"] for column in sql.inspect(engine).get_columns(table.name)}
        for column in table.columns:
            if column.name not in existing_columns:
                return f"{table.name}.{column.name}"
    return ""


def _use_write_ahead_log(connection: object, record: object) -> None:
    cursor = connection.cursor()  # type: ignore[attr-defined]
    for _, _, file in cursor.execute("PRAGMA database_list").fetchall():
        for path in (file, f"{file}-wal", f"{file}-shm") if file else ():
            make_private(Path(path))  # SQLite creates the log files with the permissions of the database
    cursor.execute("PRAGMA journal_mode=WAL")
    cursor.execute("PRAGMA synchronous=NORMAL")
    cursor.close()


def _short_reason(error: exc.SQLAlchemyError) -> str:
    """Return the type of a driver's error and the first line of its message, without the SQL statement."""
    original_error = error.orig if isinstance(error, exc.DBAPIError) else error
    lines = str(original_error).splitlines()
    return f"{type(original_error).__name__}: {lines[0] if lines else ''}"[:300]
