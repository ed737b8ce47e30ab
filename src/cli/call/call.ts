import { text } from 'node:stream/consumers';
import { DomainError } from '../../kernel/errors';
import { getJsonDepth, type JsonValue } from '../../kernel/jsonValue';
import { UsageError } from '../exit';
import { print, printJson, showTable } from '../output';
import { toPlainText } from '../plainText';
import { performCall } from './performCall';
import { messageFromJson, messageToJson } from './jsonMapping';
import { getMethod, readServerMethods, type ServerMethod } from './serverMethods';
import { pickField } from './pickField';
import { getTarget, type Target, type TargetFlags } from './target';
import { reportCallError } from './wireError';

/** Deeper than any server accepts: values may have 32 levels, and messages contain them. */
const MAX_REQUEST_DEPTH = 100;
/** The default timeout of a call without a response stream. */
const DEFAULT_TIMEOUT_MS = 30_000;

/** Options of `plantroom call`. */
export interface CallFlags extends TargetFlags {
  readonly list?: boolean;
  /** The only field of the response to print; see pickField. */
  readonly field?: string;
  /** Milliseconds. */
  readonly timeout?: number;
}

/** Runs `plantroom call`: reads the methods of the server by reflection, sends JSON and prints JSON. */
export async function runCall(name: string | undefined, body: string | undefined, flags: CallFlags): Promise<void> {
  const target = getTarget(flags);
  try {
    const methods = await readServerMethods(target);
    if (flags.list) return listMethods(methods, flags);
    if (name === undefined)
      throw new UsageError(
        'specify a method, for example "plantroom call DigitalDeviceService/ListDigitalDevices"; --list shows all methods',
      );
    const method = getMethod(methods, name);
    await callMethod(target, method, await parseRequests(method, body), flags);
  } catch (error) {
    throw reportCallError(error, {
      address: target.address,
      isJson: flags.json === true,
      invalidRequestCode: 1,
    });
  }
}

/** Calls the method. A single response is printed indented, the responses of a stream one per line. */
async function callMethod(
  target: Target,
  method: ServerMethod,
  requests: readonly object[],
  { timeout, json, field }: CallFlags,
): Promise<void> {
  const { requestStream, responseStream, path } = method.definition;
  if (!requestStream && requests.length !== 1)
    throw new UsageError(`${path} expects one request: send one JSON object`);
  // A response stream stays open as long as the reader wants.
  const timeoutMs = timeout ?? (responseStream ? undefined : DEFAULT_TIMEOUT_MS);
  const indent = responseStream || json ? undefined : 2;
  const deadline = timeoutMs === undefined ? undefined : Date.now() + timeoutMs;
  const showResponse = (response: unknown): void =>
    field === undefined ? printJson(response, indent) : print(toPlainText(pickField(response, field), Infinity));
  const cancellation = new AbortController();
  let failure: unknown;
  const onResponse = (response: object): void => {
    try {
      showResponse(messageToJson(method.output, response));
    } catch (error) {
      failure ??= error; // gRPC swallows errors thrown here
      cancellation.abort();
    }
  };
  await performCall({ target, method, requests, deadline, signal: cancellation.signal, onResponse });
  if (failure !== undefined) throw failure as Error;
}

/** Parses the requests: one JSON value; for a request stream an array or one value per line. `-` reads stdin. */
async function parseRequests(method: ServerMethod, body: string | undefined): Promise<object[]> {
  const input = body === '-' ? await text(process.stdin) : (body ?? '');
  const values = parseBodies(input.trim() || '{}', method.definition.requestStream);
  if (values.some((value) => getJsonDepth(value as JsonValue, MAX_REQUEST_DEPTH) > MAX_REQUEST_DEPTH))
    throw new UsageError(`the request has more than ${MAX_REQUEST_DEPTH} levels: reduce its nesting`);
  try {
    return values.map((value) => messageFromJson(method.input, value));
  } catch (error) {
    if (!(error instanceof DomainError)) throw error;
    throw new UsageError(
      `the request is not a valid ${method.input.typeName}:\n${error.violations.map(({ field, description }) => `  ${field}: ${description}`).join('\n')}`,
      { cause: error },
    );
  }
}

/** Parses one JSON value; for a request stream also the items of an array, or one value per line. */
function parseBodies(text: string, isStream: boolean): unknown[] {
  try {
    const value: unknown = JSON.parse(text);
    return isStream && Array.isArray(value) ? value : [value];
  } catch (error) {
    if (isStream && text.includes('\n'))
      return text
        .split('\n')
        .filter((line) => line.trim() !== '')
        .flatMap((line) => parseBodies(line, false)); // one value per line
    throw new UsageError(
      `the request is not JSON (${(error as Error).message}): quote it, for example '{"name": "Boiler"}', or use - to read it from stdin`,
      { cause: error },
    );
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
