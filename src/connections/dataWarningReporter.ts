import type { Logger } from '../kernel/logger';
import type { Connection } from './connection';
import type { ConnectionStatuses } from './connectionStatuses';
import type { DataWarningCause, DataWarningCode } from './dataWarning';
import { GroupedLog } from './groupedLog';

/** The options of DataWarningReporter. */
interface DataWarningReporterOptions {
  readonly connection: Pick<Connection, 'id' | 'connectorId'>;
  readonly statuses: ConnectionStatuses;
  readonly log: Logger;
  /** The fields of every log line. */
  readonly fields: object;
}

/** The second part of the log event of each code; the first part is the connector. */
const EVENTS: Readonly<Record<DataWarningCode, string>> = {
  uplinks_rejected: 'uplink_rejected',
  uplinks_unreadable: 'uplink_unreadable',
  sample_times_unreadable: 'sample_time_unreadable',
};

/**
 * Reports received data that a connection could not read or store: as a warning in the status of the connection with
 * the last example, as a metric, and in the log, at most one line in 10 seconds per code. The log does not contain the
 * data.
 */
export class DataWarningReporter {
  private readonly logByCode = new Map<DataWarningCode, GroupedLog>();

  constructor(private readonly options: DataWarningReporterOptions) {}

  /** Reports one message. */
  report(code: DataWarningCode, cause: DataWarningCause): void {
    this.options.statuses.addDataWarning(this.options.connection, code, cause);
    this.getLog(code).add(cause);
  }

  /** Logs what is not logged yet. Call it when no more messages follow. */
  flush(): void {
    for (const log of this.logByCode.values()) log.flush();
  }

  private getLog(code: DataWarningCode): GroupedLog {
    const { log, fields, connection } = this.options;
    const groupedLog =
      this.logByCode.get(code) ?? new GroupedLog(log, fields, `${connection.connectorId}.${EVENTS[code]}`);
    this.logByCode.set(code, groupedLog);
    return groupedLog;
  }
}
