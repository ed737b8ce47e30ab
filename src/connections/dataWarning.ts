import { truncateForDisplay } from '../kernel/truncate';

/** The codes of all data warnings. */
export const DATA_WARNING_CODES = ['uplinks_rejected', 'uplinks_unreadable', 'sample_times_unreadable'] as const;

/**
 * A warning about received data. `uplinks_rejected`: data can never be stored and was discarded. `uplinks_unreadable`:
 * data that should be readable is stored without readings. `sample_times_unreadable`: the time of the sender could not
 * be read, so the time of receipt counts.
 */
export type DataWarningCode = (typeof DATA_WARNING_CODES)[number];

/** One received message that causes a data warning. */
export interface DataWarningCause {
  /** The MQTT topic; undefined for a gateway. */
  readonly topic?: string | undefined;
  /** The device that sent it; undefined if it is unknown. */
  readonly clientDeviceId?: string | undefined;
  /** A code, a colon and a description without the content of the message. */
  readonly reason: string;
  /** The content of the message, formatted by `formatBytesExample` or `formatJsonExample`. */
  readonly example: string;
}

/** A data warning of a connection, with its last cause. The texts have no control characters. */
export interface DataWarning extends DataWarningCause {
  readonly code: DataWarningCode;
  /** The number of its causes since the server started, or since the connection was changed. */
  readonly count: number;
  /** When its last cause arrived, Unix milliseconds. */
  readonly lastAt: number;
}

/** What each data warning means, and what to do. */
export const DATA_WARNING_MESSAGES: Readonly<Record<DataWarningCode, string>> = {
  uplinks_rejected:
    'data arrived that can never be stored, and was discarded: correct what the device, the gateway or the network server sends',
  uplinks_unreadable:
    'data arrived that cannot be read, although it looks like JSON or sensors are mapped to its fields. It is stored without readings (text that is not UTF-8: with U+FFFD): correct what the device sends, or give the device a profile that decodes bytes',
  sample_times_unreadable:
    'the sample time in an uplink cannot be read, so the time of receipt was stored: correct the time that the device sends, or where the connection looks for it',
};

const MAX_TEXT_LENGTH = 255;
const MAX_EXAMPLE_LENGTH = 200;
const MAX_EXAMPLE_BYTES = 100;
const MAX_DECODED_BYTES = 256 * 1024;
/** Control characters, invisible format characters, line separators and unpaired surrogates. */
const UNPRINTABLE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu;
const STRICT = { fatal: true, ignoreBOM: true };
const utf8 = new TextDecoder('utf-8', STRICT);

/** Returns a cause whose texts can be shown: short and without control characters. */
export function makePrintable({ topic, clientDeviceId, reason, example }: DataWarningCause): DataWarningCause {
  return {
    topic: topic === undefined ? undefined : formatText(topic, MAX_TEXT_LENGTH),
    clientDeviceId: clientDeviceId === undefined ? undefined : formatText(clientDeviceId, MAX_TEXT_LENGTH),
    reason: formatText(reason, MAX_TEXT_LENGTH),
    example,
  };
}

/**
 * Formats the beginning of received bytes: as text if they are UTF-8, otherwise as `0x` and hexadecimal digits. Of a
 * message that is rejected for its size, only the beginning is decoded.
 */
export function formatBytesExample(bytes: Uint8Array): string {
  const missingBytes = bytes.length - MAX_DECODED_BYTES;
  try {
    if (missingBytes <= 0) return formatText(utf8.decode(bytes), MAX_EXAMPLE_LENGTH);
    const head = new TextDecoder('utf-8', STRICT).decode(bytes.subarray(0, MAX_DECODED_BYTES), { stream: true });
    return `${formatText(head, MAX_EXAMPLE_LENGTH)} and ${missingBytes} bytes`;
  } catch {
    const shown = Buffer.from(bytes.subarray(0, MAX_EXAMPLE_BYTES)).toString('hex');
    const missing = bytes.length - MAX_EXAMPLE_BYTES;
    return missing > 0 ? `0x${shown}… (${missing} more bytes)` : `0x${shown}`;
  }
}

/** Formats the beginning of a received JSON value; numbers that JSON does not have are written as `NaN` or `Infinity`. */
export function formatJsonExample(value: unknown): string {
  const text = JSON.stringify(value, (_key, inner: unknown) =>
    typeof inner === 'number' && !Number.isFinite(inner) ? String(inner) : inner,
  );
  return formatText(text ?? 'nothing', MAX_EXAMPLE_LENGTH);
}

/** Shortens a text, and escapes characters that are invisible or change how a text is shown. */
function formatText(text: string, maxLength: number): string {
  // Shortened first, so that the cost of a long text is bounded.
  return truncateForDisplay(text, maxLength).replaceAll(
    UNPRINTABLE,
    (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}
