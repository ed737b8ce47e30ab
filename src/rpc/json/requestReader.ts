import { isDeepStrictEqual } from 'node:util';
import type { Violation } from '../../kernel/errors';
import type { Descriptors, MethodFacts } from '../descriptors';
import { isObject, report } from './faults';
import type { Given, Message, MessageReader } from './messageReader';
import { MessageReaders } from './messageReaders';
import { readQuery } from './queryReader';

/** What a request over HTTP consists of. */
export interface RequestParts {
  /** The decoded values of the path, by the names in the route: those of the proto, or of JSON. */
  readonly path: Readonly<Record<string, string>>;
  readonly query: URLSearchParams;
  /** What parseStrict gave; undefined: none was sent. */
  readonly body: unknown;
  /** `body` of the HTTP route: `*`, a field of the request, or empty for none. */
  readonly bodyRule: string;
  /** Whether a body must be sent, though each of its fields may be left out. */
  readonly needsBody?: boolean;
}

/** Makes requests of methods out of what came over HTTP. */
export class RequestReaders {
  private readonly messages: MessageReaders;

  constructor(descriptors: Descriptors) {
    this.messages = new MessageReaders(descriptors);
  }

  /** The reader of a method. Throws for a request with a type of google.protobuf that it does not know. */
  of({ request, routes }: Pick<MethodFacts, 'request' | 'routes'>): RequestReader {
    return new RequestReader(this.messages.of(request), new Set(['organization_id', ...(routes[0]?.inPath ?? [])]));
  }
}

/** Makes requests of one method. */
export class RequestReader {
  /** `besideBody`: the fields, by their names in the proto, that may stand in the query beside a body of `*`. */
  constructor(
    private readonly message: MessageReader,
    private readonly besideBody: ReadonlySet<string>,
  ) {}

  /**
   * The request as ts-proto holds it, less what is wrong, which is added to `out` by its path in JSON names (at most 100).
   * An organization in the query beside another one in the body is left to the caller: the message has that of the body.
   */
  read(parts: RequestParts, out: Violation[]): Message {
    const given = this.fromBody(parts, out);
    this.addQuery(parts, given, out);
    this.addPath(parts, given, out);
    this.message.checkNeeded(given, '', out);
    return this.message.assembled(given);
  }

  private fromBody({ body, bodyRule, needsBody }: RequestParts, out: Violation[]): Given {
    const nothing: Given = new Map();
    if (body === undefined) {
      if (needsBody) report(out, '', 'has no body; send a JSON object');
      return nothing;
    }
    if (bodyRule === '*') return this.message.given(body, '', out) ?? nothing;
    const field = bodyRule === '' ? undefined : this.message.findByProtoName(bodyRule);
    if (!field) {
      if (!isObject(body) || Object.keys(body).length > 0) report(out, '', this.noBody());
      return nothing;
    }
    const value = field.fromJson(body, field.jsonName, out);
    return value === undefined ? nothing : nothing.set(field, value);
  }

  /** What is said of a body that nothing is read from: where its fields go instead, if there are any but those of the path. */
  private noBody(): string {
    const names = this.message.desc.fields.filter(({ name }) => !this.besideBody.has(name)).map(({ jsonName }) => jsonName);
    return names.length === 0 ? 'takes no body; send none' : `takes no body; give ${names.join(', ')} in the query`;
  }

  private addQuery({ query, body, bodyRule }: RequestParts, given: Given, out: Violation[]): void {
    const fromQuery = readQuery(query, this.message, { bodyRule, besideBody: this.besideBody }, out);
    for (const [field, value] of fromQuery) {
      if (!given.has(field)) given.set(field, value);
      else if (field.name !== 'organization_id' && !isDeepStrictEqual(given.get(field), value)) report(out, field.jsonName, 'stands in the query and, with another value, in the body; give it once');
    }
    if (fromQuery.size > 0 && body !== undefined) this.message.checkOneofs(given, '', out);
  }

  private addPath({ path }: RequestParts, given: Given, out: Violation[]): void {
    for (const [name, text] of Object.entries(path)) {
      const field = this.message.findByProtoName(name) ?? this.message.find(name);
      if (!field?.single?.fromText) throw new Error(`a route of ${this.message.desc.typeName} names ${name}, which a path cannot give`);
      const value = field.single.fromText(text, field.jsonName, out);
      if (value === undefined) continue;
      if (given.has(field) && !isDeepStrictEqual(given.get(field), value)) report(out, field.jsonName, 'stands in the path and, with another value, beside it; leave it out there');
      given.set(field, value);
    }
  }
}
