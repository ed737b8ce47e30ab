import { DurationHistogram, SHORT_DURATION_BUCKETS } from '../../kernel/durations';
import { Counter } from '../../kernel/counter';
import type { UplinkState } from './uplinkSteps';

/** The outcome of an uplink; `failed`: it was not stored, and the connector may deliver it again. */
type UplinkResult = 'stored' | 'duplicate' | 'rejected' | 'failed';

/** Counters for the uplinks of all organizations since the server started. */
export class UplinkCounts {
  readonly results = new Counter<UplinkResult>(['stored', 'duplicate', 'rejected', 'failed']);
  /** The time from delivery until the uplink is on disk; stored uplinks only. */
  readonly durations = new DurationHistogram(SHORT_DURATION_BUCKETS);
  /** The number of stored uplinks of unbound devices. */
  unbound = 0;
  /** The number of stored readings. */
  readings = 0;
  /** The number of values with the wrong type for their sensor. */
  refusedValues = 0;

  /** Counts an uplink that is on disk `milliseconds` after its delivery. */
  addStored(
    { binding, stored, refused }: Pick<UplinkState, 'binding' | 'stored' | 'refused'>,
    milliseconds: number,
  ): void {
    this.durations.add(milliseconds);
    if (!binding) this.unbound += 1;
    this.readings += stored.length;
    this.refusedValues += refused.length;
  }
}
