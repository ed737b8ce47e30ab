import { type CodecError, type DecodeResult, type EncodeResult, Sandbox } from '../../codec';
import type { JsonObject } from '../../kernel/jsonValue';
import { commandLog } from '../log';
import { configOf, type ConfigFlags } from '../options';

/** What both commands are given: the settings of the sandbox, as the server on this machine would take them. */
export type CodecFlags = ConfigFlags;

/** Does work with a sandbox of its own and stops it again. The number of workers may be less than configured, never more. */
export async function withSandboxOf<T>(flags: CodecFlags, mostWorkers: number, work: (sandbox: Sandbox, workers: number) => Promise<T>): Promise<T> {
  const { codec, log } = configOf(flags).config;
  const workers = Math.min(codec.workers, Math.max(1, mostWorkers));
  // What the sandbox warns of (a worker that was ended) is what the result says.
  const sandbox = new Sandbox({ ...codec, workers, log: { ...commandLog(log.level), warn: () => {} } });
  try {
    return await work(sandbox, workers);
  } finally {
    await sandbox.stop();
  }
}

/** A result as PreviewEncoder answers it, as JSON. */
export interface Preview {
  readonly output: { readonly bytes: readonly number[]; readonly bytesHex: string; readonly bytesBase64: string; readonly fPort: number | null } | null;
  readonly logs: readonly string[];
  readonly warnings: readonly string[];
  /** Milliseconds. */
  readonly executionTimeMs: number;
  readonly error: ShownError | null;
}

/** What a decoder gave, as JSON. */
export interface Decoding extends Omit<Preview, 'output'> {
  readonly data: JsonObject | null;
}

interface ShownError {
  readonly code: string;
  readonly message: string;
  readonly lineNumber: number | null;
}

/** Maps a result; what is absent is null. `fPort` is the one that was given: it counts when the encoder names none. */
export function previewOf({ output, logs, warnings, executionTimeMs, error }: EncodeResult, fPort: number | undefined): Preview {
  const bytes = Buffer.from(output?.bytes ?? []);
  return {
    output: output ? { bytes: [...bytes], bytesHex: bytes.toString('hex'), bytesBase64: bytes.toString('base64'), fPort: output.fPort ?? fPort ?? null } : null,
    logs,
    warnings,
    executionTimeMs,
    error: shownError(error),
  };
}

/** The same of a decoder's. */
export function decodingOf({ data, logs, warnings, executionTimeMs, error }: DecodeResult): Decoding {
  return { data: data ?? null, logs, warnings, executionTimeMs, error: shownError(error) };
}

function shownError(error: CodecError | undefined): ShownError | null {
  return error ? { code: error.code, message: error.message, lineNumber: error.lineNumber ?? null } : null;
}

/** Bytes as people read them: `01 28`. */
export function spacedHex(bytes: readonly number[]): string {
  return bytes.map((byte) => byte.toString(16).padStart(2, '0')).join(' ');
}
