import {
  type DecodeRequest,
  type DecodeResult,
  type EncodeRequest,
  type EncodeResult,
  Sandbox,
  type SandboxOptions,
} from '../../src/codec';
import type { JsonObject } from '../../src/kernel/jsonValue';
import type { Logger } from '../../src/kernel/logger';

/** A sandbox for tests, with the events that it logged. */
export interface SandboxFixture {
  readonly sandbox: Sandbox;
  readonly events: { readonly event: string; readonly fields: object }[];
  /** Runs a script with the data {"v": 7}, for the owner `org-1` by default. */
  readonly encode: (script: string, request?: Partial<EncodeRequest>) => Promise<EncodeResult>;
  /** Returns the bytes of a run that must succeed. */
  readonly bytes: (script: string, request?: Partial<EncodeRequest>) => Promise<readonly number[]>;
  /** Decodes an uplink with the bytes 01 28, for the owner `org-1` by default. */
  readonly decode: (script: string, request?: Partial<DecodeRequest>) => Promise<DecodeResult>;
  /** Returns the data of a run that must succeed. */
  readonly data: (script: string, request?: Partial<DecodeRequest>) => Promise<JsonObject>;
}

/** Opens a sandbox. The default timeouts are long, because the test machine may be busy. */
export function openSandbox(options: Partial<SandboxOptions> = {}): SandboxFixture {
  const events: { event: string; fields: object }[] = [];
  const write = (fields: object, event: string): void => void events.push({ event, fields });
  const log: Logger = { debug: write, info: write, warn: write, error: write };
  const sandbox = new Sandbox({ workers: 2, timeoutMs: 10_000, hardTimeoutMs: 20_000, log, ...options });
  sandbox.warmUp();
  const encode = async (script: string, request: Partial<EncodeRequest> = {}): Promise<EncodeResult> =>
    await sandbox.encode({ owner: 'org-1', script, data: { v: 7 }, fPort: undefined, ...request });
  const bytes = async (script: string, request: Partial<EncodeRequest> = {}): Promise<readonly number[]> => {
    const { output, error } = await encode(script, request);
    if (!output) throw new Error(`the script failed: ${JSON.stringify(error)}`);
    return [...output.bytes];
  };
  const decode = async (script: string, request: Partial<DecodeRequest> = {}): Promise<DecodeResult> =>
    await sandbox.decode({
      owner: 'org-1',
      script,
      direction: 'uplink',
      bytes: Uint8Array.of(1, 40),
      fPort: undefined,
      recvTime: undefined,
      ...request,
    });
  const data = async (script: string, request: Partial<DecodeRequest> = {}): Promise<JsonObject> => {
    const result = await decode(script, request);
    if (!result.data) throw new Error(`the script failed: ${JSON.stringify(result.error)}`);
    return result.data;
  };
  return { sandbox, events, encode, bytes, decode, data };
}
