import { inUnits } from './safeFolder';

/** How much is taken of one vendor. */
export interface Most {
  readonly profiles: number;
  /** Of scripts and examples. */
  readonly bytes: number;
}

/** Far more than any vendor has; what it takes to make them is very little, for one file can be named many times. */
export const MOST_OF_VENDOR: Most = { profiles: 20_000, bytes: 64 * 1024 * 1024 };

/** Counts what is taken of a vendor, until it is full. */
export class VendorRoom {
  private readonly taken = { profiles: 0, read: 0, kept: 0 };
  private over: string | undefined;

  constructor(private readonly most: Most = MOST_OF_VENDOR) {}

  /** What there is too much of, once there is; then nothing more is taken. */
  get full(): string | undefined {
    return this.over;
  }

  /** Takes a profile. False: it is one too many. */
  takeProfile(): boolean {
    return this.take('profiles', 1, this.most.profiles, `${this.most.profiles} profiles`);
  }

  /** Takes bytes of scripts as they are `read`, or of a codec as it is `kept`, with all of its scripts. False: they are too many. */
  takeBytes(kind: 'read' | 'kept', bytes: number): boolean {
    return this.take(kind, bytes, this.most.bytes, `${inUnits(this.most.bytes)} of scripts and examples`);
  }

  private take(kind: keyof typeof this.taken, amount: number, most: number, what: string): boolean {
    this.taken[kind] += amount;
    if (this.taken[kind] > most) this.over ??= what;
    return this.over === undefined;
  }
}
