import type { Knex } from 'knex';
import type { Dialect } from '../engines/dialect';
import * as firstLight from './0001_first_light';
import * as executionsInFull from './0002_executions_in_full';
import * as transportsAndTelemetry from './0003_transports_and_telemetry';
import * as imagesAndEtags from './0004_images_and_etags';
import * as peopleKeysAndAudit from './0005_people_keys_and_audit';
import * as deviceProfiles from './0006_device_profiles';
import * as executionTriggers from './0007_execution_triggers';
import * as idempotencyKeys from './0009_idempotency_keys';
import * as keysOfOwners from './0010_keys_of_owners';
import * as lorawanSessions from './0011_lorawan_sessions';
import * as executionDetails from './0012_execution_details';
import * as uplinkFailures from './0013_uplink_failures';
import * as timeSources from './0014_time_sources';
import * as dashboards from './0015_dashboards';

/** One change of the schema. Never edited once it has been released. */
export interface Migration {
  /** Four digits and what it is about; the order is that of the list. */
  readonly name: string;
  up(knex: Knex, dialect: Dialect): Promise<void>;
  /** Undoes it; what was only in the new columns and tables is lost. */
  down(knex: Knex, dialect: Dialect): Promise<void>;
}

/** All migrations, oldest first. Append only. */
export const MIGRATIONS: readonly Migration[] = [
  firstLight,
  executionsInFull,
  transportsAndTelemetry,
  imagesAndEtags,
  peopleKeysAndAudit,
  deviceProfiles,
  executionTriggers,
  idempotencyKeys,
  keysOfOwners,
  lorawanSessions,
  executionDetails,
  uplinkFailures,
  timeSources,
  dashboards,
];

/** The name of the schema that this program brings a database to. */
export const CURRENT_SCHEMA: string = MIGRATIONS.at(-1)?.name ?? '';
