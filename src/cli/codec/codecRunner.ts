import { type CodecError, type DecodeResult, type EncodeResult, Sandbox } from '../../codec';
import type { JsonObject } from '../../kernel/jsonValue';
import { createCommandLog } from '../log';
import { getConfig, type ConfigFlags } from '../options';

/** Options of both commands: the sandbox settings, as for the server on this machine. */
export type CodecFlags = ConfigFlags;

/**
 * Runs work with its own sandbox, which is stopped afterwards. The sandbox has as many workers as configured, but at
 * most `maxWorkers`: more than there are scripts to run would not be used. `work` gets the number of workers.
 */
export async function withSandbox<T>(
  flags: CodecFlags,
  { maxWorkers }: { readonly maxWorkers: number },
  work: (sandbox: Sandbox, workers: number) => Promise<T>,
): Promise<T> {
  const { codec, log } = getConfig(flags).config;
  const workers = Math.min(codec.workers, Math.max(1, maxWorkers));
  // Warnings are not shown: the result of a script already says that its worker was terminated.
  const sandbox = new Sandbox({ ...codec, workers, log: { ...createCommandLog(log.level), warn: () => {} } });
  try {
    return await work(sandbox, workers);
  } finally {
    await sandbox.stop();
  }
}

/** The result of an encoder as JSON, as in PreviewEncoder. */
export interface EncoderPreview {
  readonly output: {
    readonly bytes: readonly number[];
    readonly bytesHex: string;
    readonly bytesBase64: string;
    readonly fPort: number | null;
  } | null;
  readonly logs: readonly string[];
  readonly warnings: readonly string[];
  readonly executionTimeMs: number;
  readonly error: PreviewError | null;
}

/** The result of a decoder as JSON. */
export interface DecoderResult extends Omit<EncoderPreview, 'output'> {
  readonly data: JsonObject | null;
}

interface PreviewError {
  readonly code: string;
  readonly message: string;
  readonly lineNumber: number | null;
}

/**
 * Converts the result of an encoder; absent values become null. `fPort` is the passed port, used if the encoder returns
 * none.
 */
export function toPreview(
  { output, logs, warnings, executionTimeMs, error }: EncodeResult,
  fPort: number | undefined,
): EncoderPreview {
  const bytes = Buffer.from(output?.bytes ?? []);
  return {
    output: output
      ? {
          bytes: [...bytes],
          bytesHex: bytes.toString('hex'),
          bytesBase64: bytes.toString('base64'),
          fPort: output.fPort ?? fPort ?? null,
        }
      : null,
    logs,
    warnings,
    executionTimeMs,
    error: toPreviewError(error),
  };
}

/** Converts the result of a decoder; absent values become null. */
export function toDecoderResult({ data, logs, warnings, executionTimeMs, error }: DecodeResult): DecoderResult {
  return { data: data ?? null, logs, warnings, executionTimeMs, error: toPreviewError(error) };
}

function toPreviewError(error: CodecError | undefined): PreviewError | null {
  return error ? { code: error.code, message: error.message, lineNumber: error.lineNumber ?? null } : null;
}

/** Formats bytes as hex with spaces: `01 28`. */
export function formatHex(bytes: readonly number[]): string {
  return bytes.map((byte) => byte.toString(16).padStart(2, '0')).join(' ');
}
