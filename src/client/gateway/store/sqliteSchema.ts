import type { Database } from 'better-sqlite3';

/** The SQLite application id "PlGw", which marks a file as a store of a gateway. */
export const APPLICATION_ID = 0x506c4777;

/**
 * The migrations from each version of the store to the next, starting with an empty file. A released migration is never
 * changed.
 */
const MIGRATIONS: readonly string[] = [
  `create table identity (one integer primary key check (one = 1), connection_id text not null, gateway_id text not null) strict;
   create table commands (
     position integer primary key, execution_id text not null unique, stage integer not null check (stage between 0 and 2), message blob not null, expires_at_uptime_ms real not null,
     machine_start text not null, time integer not null, result integer not null, code text not null, text text not null) strict;
   create table acknowledged_commands (position integer primary key, execution_id text not null unique, result integer not null, code text not null, time integer not null) strict;
   create table uplinks (position integer primary key, uplink_id text not null unique, message blob not null) strict;`,
];

/** The store version of this package. A file with a higher version is from a newer package. */
export const STORE_VERSION = MIGRATIONS.length;

/** Migrates the tables from a version to the current one, within the open transaction. */
export function migrateStore(database: Database, version: number): void {
  if (version === STORE_VERSION) return;
  for (const migration of MIGRATIONS.slice(version)) database.exec(migration);
  database.pragma(`application_id = ${APPLICATION_ID}`);
  database.pragma(`user_version = ${STORE_VERSION}`);
}

/** The statements of the store. */
export const SQL = {
  identity: 'select connection_id as connectionId, gateway_id as gatewayId from identity',
  insertIdentity: 'insert into identity (one, connection_id, gateway_id) values (1, ?, ?)',
  openCommands: 'select * from commands order by position',
  findCommand: 'select * from commands where execution_id = ?',
  findAcknowledged: 'select * from acknowledged_commands where execution_id = ?',
  upsertCommand: `insert into commands (position, execution_id, stage, message, expires_at_uptime_ms, machine_start, time, result, code, text)
    select $position, $executionId, $stage, $message, $expiresAtUptimeMs, $machineStart, $time, $result, $code, $text
    where not exists (select 1 from acknowledged_commands where execution_id = $executionId)
    on conflict (execution_id) do update set stage = excluded.stage, message = excluded.message, expires_at_uptime_ms = excluded.expires_at_uptime_ms,
      machine_start = excluded.machine_start, time = excluded.time, result = excluded.result, code = excluded.code, text = excluded.text
    where excluded.stage > commands.stage`,
  acknowledgeCommand: `insert into acknowledged_commands (position, execution_id, result, code, time)
    select ?, execution_id, result, code, time from commands where execution_id = ?`,
  removeCommand: 'delete from commands where execution_id = ?',
  forgetAcknowledged: 'delete from acknowledged_commands where position <= ?',
  uplinksAfter:
    'select position, uplink_id as uplinkId, message from uplinks where position > ? order by position limit ?',
  insertUplink:
    'insert into uplinks (position, uplink_id, message) values (?, ?, ?) on conflict (uplink_id) do nothing',
  removeUplink: 'delete from uplinks where uplink_id = ? returning length(message) as bytes',
  loadCounters: `select (select count(*) from uplinks) as uplinkCount, (select coalesce(sum(length(message)), 0) from uplinks) as uplinkBytes, (select coalesce(max(position), 0) from uplinks) as lastUplinkPosition,
    (select coalesce(max(position), 0) from commands) as lastCommandPosition, (select coalesce(max(position), 0) from acknowledged_commands) as lastAcknowledgedPosition`,
} as const;
