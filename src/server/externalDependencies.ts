import type { Clock } from '../kernel/clock';
import type { Logger } from '../kernel/logger';

/** What the process passes to the server and to the commands. */
export interface ExternalDependencies {
  readonly log: Logger;
  readonly clock: Clock;
  /** The plantroom.yaml passed to the server; undefined: none. */
  readonly configFile?: string | undefined;
  /** SQLite: starts with the remaining data of a database that has lost data. */
  readonly acceptsDataLoss?: boolean;
}
