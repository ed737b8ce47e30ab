/** What a script is run as. */
export type Role = keyof typeof ENTRY_POINTS;

/** A function that a script may define. */
export type EntryPoint = (typeof ENTRY_POINTS)[Role][number];

/** The functions of each role; the first that a script defines is called. */
export const ENTRY_POINTS = {
  encoder: ['encodeDownlink', 'Encode', 'Encoder'],
  uplinkDecoder: ['decodeUplink', 'Decode', 'Decoder'],
  downlinkDecoder: ['decodeDownlink'],
} as const;
