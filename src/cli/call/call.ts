import { text } from 'node:stream/consumers';
import { DomainError } from '../../kernel/errors';
import { Reported, UsageError } from '../exit';
import { note, plainJson, say, sayJson, showTable } from '../output';
import { plainText } from '../plainText';
import { exchange } from './exchange';
import { messageFromJson, messageToJson } from './jsonMapping';
import { getMethod, serverMethods, type ServerMethod } from './serverMethods';
import { pickedField } from './pickedField';
import { targetOf, type Target, type TargetFlags } from './target';
import { isServiceError, wireErrorOf, wireErrorText } from './wireError';

/** What `plantroom call` is given. */
export interface CallFlags extends TargetFlags {
  readonly list?: boolean;
  /** The only member of the answer to write; see pickedField. */
  readonly field?: string;
  /** Milliseconds. */
  readonly timeout?: number;
}

/** `plantroom call`: learns the methods of the server, sends JSON, shows JSON. */
export async function runCall(name: string | undefined, body: string | undefined, flags: CallFlags): Promise<void> {
  const target = targetOf(flags);
  try {
    const methods = await serverMethods(target);
    if (flags.list) return listMethods(methods, flags);
    if (name === undefined) throw new UsageError('name a method, for example "plantroom call DigitalDeviceService/ListDigitalDevices"; --list shows them all');
    const method = getMethod(methods, name);
    await callMethod(target, method, await requestsOf(method, body), flags);
  } catch (error) {
    if (!isServiceError(error)) throw error;
    const wire = wireErrorOf(error);
    note(flags.json ? plainJson(JSON.stringify({ error: wire })) : `plantroom: ${wireErrorText(wire, target.address)}`);
    throw new Reported(1);
  }
}

/** A lone answer is shown for people to read, those of a stream one a line. */
async function callMethod(target: Target, method: ServerMethod, requests: readonly object[], { timeout, json, field }: CallFlags): Promise<void> {
  const { requestStream, responseStream, path } = method.definition;
  if (!requestStream && requests.length !== 1) throw new UsageError(`${path} takes one request; give one JSON object`);
  // A stream of answers may stay open as long as its reader likes.
  const limit = timeout ?? (responseStream ? undefined : 30_000);
  const indent = responseStream || json ? undefined : 2;
  const deadline = limit === undefined ? undefined : Date.now() + limit;
  const show = (answer: unknown): void => (field === undefined ? sayJson(answer, indent) : say(plainText(pickedField(answer, field), Infinity)));
  const ending = new AbortController();
  let failure: unknown;
  const onAnswer = (answer: object): void => {
    try {
      show(messageToJson(method.output, answer));
    } catch (error) {
      failure ??= error; // gRPC would lose what is thrown in here
      ending.abort();
    }
  };
  await exchange({ target, method, requests, deadline, signal: ending.signal, onAnswer });
  if (failure !== undefined) throw failure as Error;
}

/** The requests in the body: one JSON value, or for a stream of requests an array or one a line. `-` reads stdin. */
async function requestsOf(method: ServerMethod, body: string | undefined): Promise<object[]> {
  const given = body === '-' ? await text(process.stdin) : (body ?? '');
  const values = parseBodies(given.trim() || '{}', method.definition.requestStream);
  try {
    return values.map((value) => messageFromJson(method.input, value));
  } catch (error) {
    if (!(error instanceof DomainError)) throw error;
    throw new UsageError(`the request is no ${method.input.typeName}:\n${error.violations.map((v) => `  ${v.field}: ${v.description}`).join('\n')}`, { cause: error });
  }
}

function parseBodies(given: string, stream: boolean): unknown[] {
  try {
    const value: unknown = JSON.parse(given);
    return stream && Array.isArray(value) ? value : [value];
  } catch (error) {
    if (stream && given.includes('\n')) return given.split('\n').filter((line) => line.trim() !== '').flatMap((line) => parseBodies(line, false));
    throw new UsageError(`the request is not JSON (${(error as Error).message}); give it in quotes, for example '{"name": "Boiler"}', or - to read it from stdin`, { cause: error });
  }
}

function listMethods(methods: readonly ServerMethod[], flags: CallFlags): void {
  const rows = methods.map(({ name, definition, input, output }) => ({
    method: name,
    request: `${definition.requestStream ? 'stream ' : ''}${input.typeName}`,
    response: `${definition.responseStream ? 'stream ' : ''}${output.typeName}`,
  }));
  showTable(rows, ['method', 'request', 'response'], flags);
}
