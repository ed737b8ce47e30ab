import type { UplinkMessage } from './connector';
import type { DataWarningReporter } from './dataWarningReporter';
import { findTimeProblem } from './sampleTime';

/**
 * Reports a stored uplink whose readings do not get the time of their message (see findTimeProblem). `topic`: undefined
 * for a gateway.
 */
export function reportTimeProblem(
  dataWarnings: Pick<DataWarningReporter, 'report'>,
  uplink: UplinkMessage,
  topic: string | undefined,
): void {
  const problem = findTimeProblem(uplink, uplink.receivedAt);
  const { clientDeviceId } = uplink;
  if (problem) dataWarnings.report('sample_times_unreadable', { topic, clientDeviceId, ...problem });
}
