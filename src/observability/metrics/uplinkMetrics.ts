import type { Counter } from '../../kernel/counter';
import type { UplinkPipeline } from '../../telemetry';
import { counter, histogram, plainCounter, type MetricFamily } from './metricFamily';

/** Creates the metrics of the uplinks of all organizations. */
export function createUplinkFamilies({
  uplinks: { counts },
  undecoded,
}: {
  readonly uplinks: Pick<UplinkPipeline, 'counts'>;
  readonly undecoded: Pick<Counter, 'entries'>;
}): MetricFamily[] {
  return [
    counter(
      'plantroom_uplinks_total',
      'Uplinks: stored, duplicate, rejected (can never be stored) or failed (can be delivered again).',
      'result',
      counts.results,
    ),
    histogram(
      'plantroom_uplink_duration_seconds',
      'Time from receiving an uplink until it is stored, including its decoder.',
      counts.durations,
    ),
    plainCounter(
      'plantroom_uplinks_unassigned_total',
      'Stored uplinks of devices that are not bound to a digital device.',
      () => counts.unbound,
    ),
    counter(
      'plantroom_uplink_decode_failures_total',
      'Uplinks whose decoder returned nothing usable, by error code. They are stored undecoded.',
      'code',
      undecoded,
    ),
    plainCounter('plantroom_readings_stored_total', 'Stored sensor values.', () => counts.readings),
    plainCounter(
      'plantroom_reading_values_rejected_total',
      'Sensor values rejected because of a wrong type.',
      () => counts.refusedValues,
    ),
  ];
}
