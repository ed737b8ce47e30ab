import type { Tally } from '../../kernel/tally';
import type { UplinkPipeline } from '../../telemetry';
import { counter, histogram, total, type Family } from './family';

/** What devices sent, of all organizations. */
export function uplinkFamilies({ uplinks: { counts }, undecoded }: { readonly uplinks: Pick<UplinkPipeline, 'counts'>; readonly undecoded: Pick<Tally, 'entries'> }): Family[] {
  return [
    counter('plantroom_uplinks_total', 'Uplinks: stored, duplicate, rejected (can never be stored) or failed (may be brought again).', 'result', counts.results),
    histogram('plantroom_uplink_duration_seconds', 'From when an uplink was handed in until it was on disk, its decoder included.', counts.durations),
    total('plantroom_uplinks_unbound_total', 'Uplinks that were stored of devices that are bound to no digital device.', () => counts.unbound),
    counter('plantroom_uplinks_undecoded_total', 'Uplinks whose decoder gave nothing of use, by the code of why; they are stored as they came.', 'code', undecoded),
    total('plantroom_readings_stored_total', 'Values of sensors that were stored.', () => counts.readings),
    total('plantroom_values_refused_total', 'Values that were none of the type of their sensor, and not stored.', () => counts.refusedValues),
  ];
}
