/** A google.protobuf.Timestamp as the generated code represents it. */
export interface TimestampMessage {
  seconds: number;
  nanos: number;
}

/** The range of a Timestamp in Unix seconds: 0001-01-01T00:00:00Z to 9999-12-31T23:59:59Z. */
export const FIRST_SECOND = -62_135_596_800;
export const LAST_SECOND = 253_402_300_799;

/** Whether a Timestamp is in the range that google.protobuf.Timestamp allows. */
export function isValidTimestamp({ seconds, nanos }: TimestampMessage): boolean {
  return seconds >= FIRST_SECOND && seconds <= LAST_SECOND && nanos >= 0 && nanos <= 999_999_999;
}

/** Converts Unix milliseconds to a Timestamp. */
export function toTimestamp(milliseconds: number): TimestampMessage {
  const seconds = Math.floor(milliseconds / 1000);
  // Seconds are rounded down, so `nanos` is never negative, even before 1970.
  return { seconds, nanos: (milliseconds - seconds * 1000) * 1_000_000 };
}

/** Converts optional Unix milliseconds to an optional Timestamp. */
export function optionalTimestamp(milliseconds: number | undefined): TimestampMessage | undefined {
  return milliseconds === undefined ? undefined : toTimestamp(milliseconds);
}

/** Converts a Timestamp to Unix milliseconds, rounded down. */
export function fromTimestamp(timestamp: TimestampMessage): number {
  return timestamp.seconds * 1000 + Math.floor(timestamp.nanos / 1_000_000);
}
