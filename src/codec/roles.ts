/** The role in which a script runs. */
export type Role = keyof typeof ENTRY_POINTS;

/** A function that a script may define. */
export type EntryPoint = (typeof ENTRY_POINTS)[Role][number];

/** The functions of each role. The first one that a script defines is called. */
export const ENTRY_POINTS = {
  encoder: ['encodeDownlink', 'Encode', 'Encoder'],
  uplinkDecoder: ['decodeUplink', 'Decode', 'Decoder'],
  downlinkDecoder: ['decodeDownlink'],
} as const;
