"""Tables of shared journals in a database: SQL, its versions, and the roles that use it."""

from __future__ import annotations

from surebayes.filter.store.events import COLUMNS

VERSION = 3
"""The version of the tables: 1 shares the lessons of a filter, 2 remembered verdicts as well, 3 personal layers."""

_TYPES = {"INTEGER": "bigint", "TEXT": "text", "REAL": "double precision", "BLOB": "bytea"}


def _column(declared: str) -> str:
    kind, _, more = declared.replace(" PRIMARY KEY", " NOT NULL").partition(" ")
    return f"{_TYPES[kind]} {more}".rstrip()


_EVENTS = ",\n  ".join(f"{column.name} {_column(column.declared)}" for column in COLUMNS)

TABLES_1 = f"""
CREATE SCHEMA IF NOT EXISTS surebayes;
CREATE TABLE surebayes.version (version integer NOT NULL);
CREATE TABLE surebayes.journals (
  journal integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  name text NOT NULL UNIQUE
);
CREATE TABLE surebayes.facts (
  journal integer NOT NULL REFERENCES surebayes.journals,
  number bigint GENERATED ALWAYS AS IDENTITY,
  name text NOT NULL,
  value text NOT NULL,
  PRIMARY KEY (journal, number)
);
CREATE TABLE surebayes.events (
  journal integer NOT NULL REFERENCES surebayes.journals,
  {_EVENTS},
  PRIMARY KEY (journal, seq)
);
ALTER TABLE surebayes.events ALTER COLUMN body SET STORAGE EXTERNAL;
CREATE TABLE surebayes.sent (
  journal integer NOT NULL REFERENCES surebayes.journals,
  key bytea NOT NULL,
  PRIMARY KEY (journal, key)
);
CREATE TABLE surebayes.snapshots (
  journal integer NOT NULL REFERENCES surebayes.journals,
  seq bigint NOT NULL,
  part integer NOT NULL,
  file text NOT NULL,
  content bytea NOT NULL,
  PRIMARY KEY (journal, seq, part)
);
ALTER TABLE surebayes.snapshots ALTER COLUMN content SET STORAGE EXTERNAL;
"""
"""Rows of the journal are numbered by their writer, which holds the journal's lock and has read all rows before: the
number after the last. So whoever reads a row can read every row before it."""

_OF_HOSTS = "surebayes.verdicts, surebayes.memory, surebayes.notices, surebayes.hosts"
TABLES_2 = f"""
CREATE TABLE surebayes.verdicts (
  journal integer NOT NULL REFERENCES surebayes.journals,
  id bigint NOT NULL,
  change bigint NOT NULL,
  time double precision NOT NULL,
  fingerprint text NOT NULL,
  person bytea NOT NULL,
  message_id bytea,
  body text NOT NULL,
  content bytea,
  PRIMARY KEY (journal, id)
);
CREATE INDEX verdicts_by_change ON surebayes.verdicts (journal, change);
CREATE INDEX verdicts_by_fingerprint ON surebayes.verdicts (journal, fingerprint);
CREATE TABLE surebayes.memory (
  journal integer NOT NULL REFERENCES surebayes.journals,
  name text NOT NULL,
  change bigint NOT NULL,
  value text NOT NULL,
  PRIMARY KEY (journal, name)
);
CREATE TABLE surebayes.notices (
  journal integer NOT NULL REFERENCES surebayes.journals,
  change bigint NOT NULL,
  place integer NOT NULL,
  kind text NOT NULL,
  value text NOT NULL,
  PRIMARY KEY (journal, change, place)
);
CREATE TABLE surebayes.hosts (
  journal integer NOT NULL REFERENCES surebayes.journals,
  host text NOT NULL,
  slot integer NOT NULL,
  sent bigint NOT NULL DEFAULT 0,
  name text,
  release text,
  seq bigint,
  change bigint,
  digest text,
  time timestamptz,
  PRIMARY KEY (journal, host),
  UNIQUE (journal, slot)
);
DO $$ BEGIN
  IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'surebayes_append') THEN
    GRANT SELECT, INSERT, UPDATE, DELETE ON {_OF_HOSTS} TO surebayes_append;
  END IF;
END $$;
"""
"""Remembered verdicts as they are now, with the number of the exchange that changed them last; budgets, counts and
settings; notices (scores, rows of the ledger, erasures); and the hosts."""

TABLES_3 = """
CREATE TABLE surebayes.layers (
  site integer NOT NULL REFERENCES surebayes.journals,
  person text NOT NULL,
  journal integer NOT NULL UNIQUE REFERENCES surebayes.journals,
  PRIMARY KEY (site, person)
);
CREATE TABLE surebayes.removals (
  site integer NOT NULL REFERENCES surebayes.journals,
  number bigint NOT NULL,
  person bytea NOT NULL,
  journal text NOT NULL,
  seq bigint,
  PRIMARY KEY (site, number)
);
ALTER TABLE surebayes.hosts ADD COLUMN removal bigint;
DO $$ BEGIN
  IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'surebayes_append') THEN
    GRANT SELECT, INSERT ON surebayes.layers TO surebayes_append;
    GRANT SELECT ON surebayes.removals TO surebayes_append;
  END IF;
  IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'surebayes_erase') THEN
    GRANT INSERT ON surebayes.removals TO surebayes_erase;
    GRANT DELETE ON surebayes.layers, surebayes.journals, surebayes.facts, surebayes.events, surebayes.sent
      TO surebayes_erase;
  END IF;
END $$;
"""
"""The journal of each person with a layer on a site, and what hosts delete from their copies, numbered in the order of
commits: a person, known by a keyed hash of the name, or erased content of a layer up to its row `seq`."""

STEPS = (TABLES_1, TABLES_2, TABLES_3)
"""SQL of each version, from the version before."""

ROLES = f"""\
-- The roles of a database of shared journals. Run this as the owner of the tables, which `surebayes migrate` makes.
-- surebayes_append: what every host needs. surebayes_erase: what `surebayes erase` needs as well.
CREATE ROLE surebayes_append NOLOGIN;
CREATE ROLE surebayes_erase NOLOGIN IN ROLE surebayes_append;
GRANT USAGE ON SCHEMA surebayes TO surebayes_append;
GRANT SELECT ON ALL TABLES IN SCHEMA surebayes TO surebayes_append;
GRANT INSERT ON surebayes.journals, surebayes.facts, surebayes.events, surebayes.sent, surebayes.snapshots,
  surebayes.layers TO surebayes_append;
GRANT INSERT, UPDATE, DELETE ON {_OF_HOSTS}
  TO surebayes_append;
GRANT UPDATE (body) ON surebayes.events TO surebayes_erase;
GRANT INSERT ON surebayes.removals TO surebayes_erase;
GRANT DELETE ON surebayes.snapshots, surebayes.layers, surebayes.journals, surebayes.facts, surebayes.events,
  surebayes.sent TO surebayes_erase;
-- A role for a host, and one for the person who erases:
--   CREATE ROLE mail1 LOGIN PASSWORD '...' IN ROLE surebayes_append;
--   CREATE ROLE privacy LOGIN PASSWORD '...' IN ROLE surebayes_erase;
"""
"""SQL for roles with the least rights."""
