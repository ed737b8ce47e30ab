import type { Config } from '../config';
import type { Database } from '../database';
import type { Clock } from '../kernel/clock';
import type { Logger } from '../kernel/logger';
import type { Disposables } from './disposables';
import type { Monitoring } from './monitoring';

/** What every start-up step stands on: the configuration, the open database, the clocks and the log. */
export interface Foundation {
  readonly config: Config;
  readonly configFile: string | undefined;
  readonly log: Logger;
  readonly database: Database;
  /** The clock of the server. It never jumps forward. */
  readonly clock: Clock;
  /** The clock that decides what has expired. It may lag behind after the system clock jumped ahead. */
  readonly retentionClock: Clock;
  /** Whether the system clock jumped ahead recently and may be corrected. */
  readonly isClockUnreliable: () => boolean;
  readonly monitoring: Monitoring;
  readonly disposables: Disposables;
}
