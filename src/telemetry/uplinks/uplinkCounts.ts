import { Durations, QUICK } from '../../kernel/durations';
import { Tally } from '../../kernel/tally';
import type { UplinkState } from './uplinkSteps';

/** What became of an uplink; `failed`: it was not stored, and whoever brought it may bring it again. */
export type UplinkResult = 'stored' | 'duplicate' | 'rejected' | 'failed';

/** What came of uplinks since the server started, of all organizations. */
export class UplinkCounts {
  readonly results = new Tally<UplinkResult>(['stored', 'duplicate', 'rejected', 'failed']);
  /** From when it was handed in until it is on disk; of those that are stored. */
  readonly durations = new Durations(QUICK);
  /** Of devices that are bound to no digital device. */
  unbound = 0;
  /** Values of sensors that are on disk. */
  readings = 0;
  /** Values that are none of their sensor's type. */
  refusedValues = 0;

  /** One is on disk, so many milliseconds after it was handed in. */
  store({ binding, stored, refused }: Pick<UplinkState, 'binding' | 'stored' | 'refused'>, milliseconds: number): void {
    this.durations.add(milliseconds);
    if (!binding) this.unbound += 1;
    this.readings += stored.length;
    this.refusedValues += refused.length;
  }
}
