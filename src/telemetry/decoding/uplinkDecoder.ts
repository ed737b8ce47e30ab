import type { CodecError, DecodeResult, Sandbox } from '../../codec';
import { findRawBytes, type UplinkIdentity, type UplinkMessage } from '../../connections';
import type { Database } from '../../database';
import { UplinkRepository, type DeviceDecoder } from '../../devices';
import type { Clock } from '../../kernel/clock';
import { DomainError } from '../../kernel/errors';
import { InexactNumber } from '../../kernel/inexactNumber';
import { type JsonObject, findJsonProblem } from '../../kernel/jsonValue';
import type { Logger } from '../../kernel/logger';
import { truncate } from '../../kernel/truncate';
import type { Counter } from '../../kernel/counter';
import { CodecRepository } from '../../profiles';
import { SeenUplinkRepository } from '../uplinks/seenUplinkRepository';
import { DecodeFailures, type DecodeFailure } from './decodeFailures';
import { ConcurrencyLimiter } from './concurrencyLimiter';
import { DecoderScripts } from './decoderScripts';
import { OverrunTracker, type DecoderRun } from './overrunTracker';
import { RetryingSandbox } from './retryingSandbox';

/** Dependencies of UplinkDecoder. */
interface UplinkDecoderOptions {
  readonly database: Database;
  readonly sandbox: Pick<Sandbox, 'decode'>;
  readonly clock: Clock;
  readonly log: Logger;
  /** The retry interval while the sandbox cannot run a decoder, milliseconds; default 100. */
  readonly retryMs?: number;
}

/**
 * Fields that are added to the received payload: the decoded data (numbers that JSON does not have are InexactNumber),
 * or the decode error; none if nothing is decoded.
 */
export type Decoded =
  { readonly object: JsonObject } | { readonly decodeError: string } | Readonly<Record<string, never>>;

/** The result of a decoder for an uplink. */
export interface DecodedUplink {
  readonly decoded: Decoded;
  /** The warnings that the decoder returned (TS013), for people; none if nothing is decoded. */
  readonly warnings: readonly string[];
}

/** One uplink to decode, with the inputs of its decoder. */
interface Job extends DecoderRun {
  readonly message: UplinkMessage;
  /** The limiter and the sandbox let owners take turns, so that one of them cannot block the others. */
  readonly owner: string;
  readonly script: string;
  readonly bytes: Uint8Array;
  readonly variables: Readonly<Record<string, string>>;
}

/** The outcome for an uplink. `already_stored`: it was stored in the meantime, so that it need not be decoded. */
type Outcome =
  | { readonly kind: 'decoded'; readonly object: JsonObject; readonly warnings: readonly string[] }
  | { readonly kind: 'failed'; readonly failure: DecodeFailure; readonly warnings: readonly string[] }
  | { readonly kind: 'already_stored' };

/** A run that was stopped because the machine was too busy, not because of the script (`isServerFault`). */
interface Interruption {
  readonly kind: 'interrupted';
  readonly result: DecodeResult;
}

// A decoder that hangs can only block 4 uplinks. The total stays far below the queue limit of the sandbox.
const LIMITS = { perKey: 4, total: 64 } as const;
const MAX_ATTEMPTS = 3;
const RETRY_MS = 100;
const MAX_ERROR_LENGTH = 500;
/** The field of the stored payload that contains the decoded data. */
const RESULT_FIELD = 'object';
const NOT_DECODED: DecodedUplink = { decoded: {}, warnings: [] };

/** Decodes the bytes of uplinks with the decoder of the device's profile. */
export class UplinkDecoder {
  private readonly devices: UplinkRepository;
  private readonly seenUplinks: SeenUplinkRepository;
  private readonly scripts: DecoderScripts;
  private readonly sandbox: RetryingSandbox;
  private readonly limiter = new ConcurrencyLimiter(LIMITS);
  private readonly overruns: OverrunTracker;
  private readonly failures: DecodeFailures;

  constructor(private readonly options: UplinkDecoderOptions) {
    const { db } = options.database;
    const codecs = new CodecRepository(db);
    this.devices = new UplinkRepository(db);
    this.seenUplinks = new SeenUplinkRepository(db);
    this.sandbox = new RetryingSandbox({ retryMs: RETRY_MS, ...options });
    this.scripts = new DecoderScripts(async (codecId) => (await codecs.findScript(codecId, 'decoder'))?.text);
    this.overruns = new OverrunTracker(options.clock);
    this.failures = new DecodeFailures(options.log);
  }

  /**
   * Decodes an uplink. Returns no fields if it has no bytes, if the device has no profile with a decoder, or if the
   * uplink is already stored. May take seconds, so call it outside of transactions. Throws `database_unavailable`, and
   * `shutting_down` when the server shuts down; the caller may decode the uplink again after the restart.
   */
  async decode(message: UplinkMessage): Promise<DecodedUplink> {
    const bytes = findRawBytes(message);
    if (!bytes) return NOT_DECODED;
    const { organizationId, connectionId, clientDeviceId } = message;
    const decoder = await this.devices.findDecoder(organizationId, connectionId, clientDeviceId);
    if (!decoder) return NOT_DECODED;
    const script = await this.scripts.find(decoder);
    if (script === undefined) return NOT_DECODED;
    const outcome = await this.runWithRetries(this.toJob(message, decoder, script, bytes));
    if (outcome.kind === 'already_stored') return NOT_DECODED;
    const { warnings } = outcome;
    if (outcome.kind === 'decoded') return { decoded: { [RESULT_FIELD]: outcome.object }, warnings };
    this.failures.add(message, decoder.codecId, outcome.failure);
    const decodeError = truncate(`${outcome.failure.code}: ${outcome.failure.message}`, MAX_ERROR_LENGTH);
    return { decoded: { decodeError }, warnings };
  }

  /**
   * Called when the server shuts down: uplinks that wait for the sandbox or for another attempt fail with
   * `shutting_down`.
   */
  stop(): void {
    this.sandbox.stop();
  }

  /** The number of uplinks that were not decoded, by error code. */
  get failureCounts(): Pick<Counter, 'entries'> {
    return this.failures.counts;
  }

  /** Collects the inputs of the decoder, and the keys by which its runs are limited. */
  private toJob(
    message: UplinkMessage,
    { codecId, hash, variables }: DeviceDecoder,
    script: string,
    bytes: Uint8Array,
  ): Job {
    const { organizationId, connectionId, clientDeviceId, identity } = message;
    const run = {
      decoder: `${organizationId} ${codecId} ${hash}`,
      device: `${connectionId} ${clientDeviceId}`,
      ...getUplinkKey(identity),
    };
    const owner = `uplinks ${organizationId} ${codecId}`;
    // When a script of an owner has cost the sandbox a worker, the sandbox gives that owner only one worker. So a
    // device whose last run was an overrun becomes a separate owner, and other devices with this decoder do not wait
    // for it.
    return {
      ...run,
      message,
      owner: this.overruns.isSuspect(run) ? `${owner} ${run.device}` : owner,
      script,
      bytes,
      variables,
    };
  }

  /**
   * Runs the decoder, and again after a pause if the run was interrupted because the machine was too busy. If the last
   * of MAX_ATTEMPTS runs is interrupted too, its result counts, and the time of all runs is an overrun of the decoder.
   */
  private async runWithRetries(job: Job): Promise<Outcome> {
    let interruptedMs = 0;
    for (let attempt = 1; attempt < MAX_ATTEMPTS; attempt += 1) {
      const outcome = await this.limiter.run(job.owner, async () => await this.runOnce(job, interruptedMs));
      if (outcome.kind !== 'interrupted') return outcome;
      interruptedMs += outcome.result.executionTimeMs;
      await this.sandbox.pause((this.options.retryMs ?? RETRY_MS) * attempt);
    }
    return await this.limiter.run(job.owner, async () => {
      const outcome = await this.runOnce(job, interruptedMs);
      if (outcome.kind !== 'interrupted') return outcome;
      this.overruns.addOverrun(job, interruptedMs + outcome.result.executionTimeMs);
      return toOutcome(outcome.result);
    });
  }

  /**
   * Runs the decoder once, unless it is suspended or the uplink is stored meanwhile. Reports to the timeout tracker
   * whether the run stayed within its limits. `interruptedMs`: the duration of earlier, interrupted runs, which is part
   * of an overrun.
   */
  private async runOnce(job: Job, interruptedMs: number): Promise<Outcome | Interruption> {
    const suspensionMs = this.overruns.getSuspensionMs(job);
    if (suspensionMs > 0)
      return createFailure(
        'decoder_paused',
        `the decoder exceeded its time or memory limit too often; it runs again in ${Math.ceil(suspensionMs / 1000)} s`,
      );
    // Checked now and not earlier: the same uplink may have been stored while this one was waiting.
    if (await this.seenUplinks.isStored(job.message.connectionId, job.message.identity))
      return { kind: 'already_stored' };
    const result = await this.runInSandbox(job);
    if (result instanceof DomainError) return createFailure(result.reason, result.message);
    if (result.isServerFault) return { kind: 'interrupted', result };
    if (result.error?.code === 'timeout' || result.error?.code === 'out_of_memory')
      this.overruns.addOverrun(job, interruptedMs + result.executionTimeMs);
    else this.overruns.addSuccess(job);
    return toOutcome(result);
  }

  /** Runs the decoder in the sandbox; returns the error if the sandbox stayed unavailable. */
  private async runInSandbox({ owner, script, bytes, message, variables }: Job): Promise<DecodeResult | DomainError> {
    return await this.sandbox.decode({
      owner,
      script,
      direction: 'uplink',
      bytes,
      fPort: message.fPort,
      recvTime: Math.floor(message.receivedAt),
      variables,
    });
  }
}

/**
 * Returns the key of an uplink for the overrun tracker. A delivery without an id is known by its slot (the packet
 * identifier of MQTT) and the digest of its content. It is only a repetition if it is marked as one, because transports
 * reuse their slots and devices send the same data again.
 */
function getUplinkKey(identity: UplinkIdentity): Pick<DecoderRun, 'uplink' | 'mayBeRepetition'> {
  if (identity.kind === 'id') return { uplink: identity.uplinkId, mayBeRepetition: true };
  if (identity.kind === 'delivery')
    return { uplink: `${identity.slot} ${identity.digest}`, mayBeRepetition: identity.isRepetition };
  return { uplink: '', mayBeRepetition: false };
}

/** Converts the result of a decoder. A result that cannot be stored as JSON is a failure. */
function toOutcome({ data, error, warnings, nonFinite = [] }: DecodeResult): Outcome {
  if (data === undefined) return createFailure(error?.code ?? 'bad_output', formatError(error), warnings);
  const problem = findJsonProblem({ [RESULT_FIELD]: data });
  return problem === undefined
    ? { kind: 'decoded', object: insertNonFinite(data, nonFinite), warnings }
    : createFailure('bad_output', `the result of the decoder ${problem}`, warnings);
}

/** Puts the numbers that JSON does not have in the places where the decoder returned them. */
function insertNonFinite(data: JsonObject, numbers: NonNullable<DecodeResult['nonFinite']>): JsonObject {
  if (numbers.length === 0) return data;
  const copy = structuredClone(data) as Record<string, unknown>;
  for (const { path, text } of numbers) {
    const parent = getValueAtKeys(copy, path.slice(0, -1));
    const key = path.at(-1) ?? '';
    if (parent?.[key] === null) parent[key] = new InexactNumber(text, Number(text));
  }
  return copy as JsonObject;
}

/** Returns the object or list at these keys; undefined if there is none. */
function getValueAtKeys(root: unknown, keys: readonly string[]): Record<string, unknown> | undefined {
  let value = root;
  for (const key of keys) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, key)) return undefined;
    value = (value as Record<string, unknown>)[key];
  }
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : undefined;
}

function createFailure(code: string, message: string, warnings: readonly string[] = []): Outcome {
  return { kind: 'failed', failure: { code, message }, warnings };
}

function formatError(error: CodecError | undefined): string {
  const { message = 'the decoder returned nothing', lineNumber } = error ?? {};
  return lineNumber === undefined ? message : `${message} (line ${lineNumber})`;
}
