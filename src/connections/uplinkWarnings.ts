import type { UplinkMessage, UplinkOutcome } from './connector';
import type { DataWarningCode } from './dataWarning';
import type { DataWarningReporter } from './dataWarningReporter';
import { findTimeProblem } from './sampleTime';

/** Where an uplink came from. */
interface UplinkOrigin {
  /** The MQTT topic; undefined for a gateway. */
  readonly topic?: string | undefined;
  /** Formats the received content with `formatBytesExample` or `formatJsonExample`; called only if it is reported. */
  readonly formatExample: () => string;
}

/**
 * Reports an uplink that was rejected, and a stored one that cannot be read or whose readings do not get the time of
 * their message (see findTimeProblem).
 */
export function reportOutcome(
  dataWarnings: Pick<DataWarningReporter, 'report'>,
  uplink: UplinkMessage,
  outcome: UplinkOutcome,
  { topic, formatExample }: UplinkOrigin,
): void {
  const { clientDeviceId, receivedAt } = uplink;
  const report = (code: DataWarningCode, reason: string, example: string): void =>
    dataWarnings.report(code, { topic, clientDeviceId, reason, example });
  if (outcome.outcome === 'rejected') report('uplinks_rejected', outcome.reason, formatExample());
  if (outcome.outcome !== 'stored') return;
  if (outcome.unreadable !== undefined) report('uplinks_unreadable', outcome.unreadable, formatExample());
  const problem = findTimeProblem(uplink, receivedAt);
  if (problem) report('sample_times_unreadable', problem.reason, problem.example);
}
