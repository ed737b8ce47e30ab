import type { CodecError, DecodeResult, Sandbox } from '../../codec';
import type { UplinkIdentity, UplinkMessage } from '../../connections';
import type { Database } from '../../database';
import { UplinkRepository, type DeviceDecoder } from '../../devices';
import type { Clock } from '../../kernel/clock';
import { DomainError } from '../../kernel/errors';
import { type JsonObject, jsonProblem } from '../../kernel/jsonValue';
import type { Logger } from '../../kernel/logger';
import { cut } from '../../kernel/shortened';
import type { Tally } from '../../kernel/tally';
import { CodecRepository } from '../../profiles';
import { SeenUplinkRepository } from '../uplinks/seenUplinkRepository';
import { DecodeFailures, type DecodeFailure } from './decodeFailures';
import { DecodeGate } from './decodeGate';
import { DecoderScripts } from './decoderScripts';
import { Overruns, type DecoderRun } from './overruns';
import { PatientSandbox } from './patientSandbox';

/** What decoding needs. */
export interface UplinkDecoderOptions {
  readonly database: Database;
  readonly sandbox: Pick<Sandbox, 'decode'>;
  readonly clock: Clock;
  readonly log: Logger;
  /** How long to wait before another attempt where the sandbox could not run a decoder, milliseconds; 100 unless given. */
  readonly retryMs?: number;
}

/** What is stored beside what came: the data of a decoder, why there is none, or nothing. */
export type Decoded = { readonly object: JsonObject } | { readonly decodeError: string } | Readonly<Record<string, never>>;

/** One uplink on its way through a decoder. */
interface Job extends DecoderRun {
  readonly message: UplinkMessage;
  readonly owner: string;
  readonly script: string;
  readonly bytes: Uint8Array;
  readonly variables: Readonly<Record<string, string>>;
}

type Attempt = { readonly object: JsonObject } | { readonly failure: DecodeFailure; readonly isWorthAnother: boolean } | 'stored';

// Few of one decoder at once: if it hangs, no more than these wait for it. All together they are far from what the sandbox takes.
const LIMITS = { each: 4, all: 64 } as const;
const TRIES = 3;
const RETRY_MS = 100;
const LONGEST_ERROR = 500;
const UNDER = 'object';

/** Decodes what came as bytes with the decoder of the device's profile. */
export class UplinkDecoder {
  private readonly devices: UplinkRepository;
  private readonly seen: SeenUplinkRepository;
  private readonly scripts: DecoderScripts;
  private readonly sandbox: PatientSandbox;
  private readonly gate = new DecodeGate(LIMITS);
  private readonly overruns: Overruns;
  private readonly failures: DecodeFailures;

  constructor(private readonly options: UplinkDecoderOptions) {
    const { db } = options.database;
    const codecs = new CodecRepository(db);
    this.devices = new UplinkRepository(db);
    this.seen = new SeenUplinkRepository(db);
    this.sandbox = new PatientSandbox({ retryMs: RETRY_MS, ...options });
    this.scripts = new DecoderScripts(async (codecId) => (await codecs.findScript(codecId, 'decoder'))?.text);
    this.overruns = new Overruns(options.clock);
    this.failures = new DecodeFailures(options.log);
  }

  /**
   * What the decoder makes of an uplink, if it came as bytes, its device has a profile with a decoder, and it is not stored already. May take
   * seconds, so call it outside of transactions. Throws `database_unavailable`, and `shutting_down` when the server stops: then it may be handed in again.
   */
  async decode(message: UplinkMessage): Promise<Decoded> {
    const bytes = message.payload.kind === 'bytes' ? message.payload.bytes : message.encoded;
    if (bytes === undefined || bytes.length === 0) return {};
    const { organizationId, connectionId, clientDeviceId } = message;
    const decoder = await this.devices.findDecoder(organizationId, connectionId, clientDeviceId);
    if (!decoder) return {};
    const script = await this.scripts.find(decoder);
    if (script === undefined) return {};
    const attempt = await this.insist(this.jobOf(message, decoder, script, bytes));
    if (attempt === 'stored') return {};
    if ('object' in attempt) return attempt;
    this.failures.add(message, decoder.codecId, attempt.failure);
    return { decodeError: cut(`${attempt.failure.code}: ${attempt.failure.message}`, LONGEST_ERROR) };
  }

  /** The server stops: what would have to wait for room or for another attempt is refused with `shutting_down`. */
  stop(): void {
    this.sandbox.stop();
  }

  /** How often an uplink was not decoded, by the code of why. */
  get failureCounts(): Pick<Tally, 'entries'> {
    return this.failures.counts;
  }

  private jobOf(message: UplinkMessage, { codecId, hash, variables }: DeviceDecoder, script: string, bytes: Uint8Array): Job {
    const { organizationId, connectionId, clientDeviceId, identity } = message;
    const run = { decoder: `${organizationId} ${codecId} ${hash}`, device: `${connectionId} ${clientDeviceId}`, ...nameOf(identity) };
    const owner = `uplinks ${organizationId} ${codecId}`;
    // The sandbox gives one thread to an owner that lost one: others with this decoder must not have to wait for it.
    return { ...run, message, owner: this.overruns.isSuspect(run) ? `${owner} ${run.device}` : owner, script, bytes, variables };
  }

  private async insist(job: Job): Promise<Attempt> {
    let spentMs = 0;
    for (let tries = 1; ; tries += 1) {
      const attempt = await this.gate.pass(job.owner, async () => await this.attempt(job, tries === TRIES, (ms) => (spentMs += ms)));
      if (attempt === 'stored' || 'object' in attempt || !attempt.isWorthAnother) return attempt;
      await this.sandbox.pause((this.options.retryMs ?? RETRY_MS) * tries);
    }
  }

  /** `spent` is told what this attempt took, and says what all did. */
  private async attempt(job: Job, isLast: boolean, spent: (ms: number) => number): Promise<Attempt> {
    const restMs = this.overruns.restMs(job);
    if (restMs > 0) return failed('decoder_rests', `the decoder took too long or too much memory too often; it is tried again in ${Math.ceil(restMs / 1000)} s`);
    // Here, when its turn has come: the same one may have been stored since.
    if (await this.seen.isStored(job.message.connectionId, job.message.identity)) return 'stored';
    const result = await this.run(job);
    if (result instanceof DomainError) return failed(result.reason, result.message);
    const spentMs = spent(result.executionTimeMs);
    if (result.blameless && !isLast) return failed('timeout', 'the machine was too busy', true);
    if (result.blameless || isOverrun(result.error)) this.overruns.overran(job, spentMs);
    else this.overruns.ended(job);
    return attemptOf(result);
  }

  private async run({ owner, script, bytes, message, variables }: Job): Promise<DecodeResult | DomainError> {
    return await this.sandbox.decode({ owner, script, direction: 'uplink', bytes, fPort: message.fPort, recvTime: Math.floor(message.receivedAt), variables });
  }
}

/** A delivery is a new one unless it is marked as a repetition; its transport uses slots again, and devices send the same again. */
function nameOf(identity: UplinkIdentity): Pick<DecoderRun, 'uplink' | 'isRepetition'> {
  if (identity.kind === 'id') return { uplink: identity.uplinkId, isRepetition: true };
  if (identity.kind === 'delivery') return { uplink: `${identity.slot} ${identity.digest}`, isRepetition: identity.isRepetition };
  return { uplink: '', isRepetition: false };
}

function attemptOf({ data, error }: DecodeResult): Attempt {
  if (data === undefined) return failed(error?.code ?? 'bad_output', textOf(error));
  const problem = jsonProblem({ [UNDER]: data });
  return problem === undefined ? { [UNDER]: data } : failed('bad_output', `what the decoder returned ${problem}`);
}

function failed(code: string, message: string, isWorthAnother = false): Attempt {
  return { failure: { code, message }, isWorthAnother };
}

function isOverrun(error: CodecError | undefined): boolean {
  return error?.code === 'timeout' || error?.code === 'out_of_memory';
}

function textOf(error: CodecError | undefined): string {
  const { message = 'the decoder returned nothing', lineNumber } = error ?? {};
  return lineNumber === undefined ? message : `${message} (line ${lineNumber})`;
}
