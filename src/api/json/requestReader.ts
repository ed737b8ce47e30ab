import { isDeepStrictEqual } from 'node:util';
import type { Violation } from '../../kernel/errors';
import { isObject } from '../../kernel/jsonValue';
import type { Descriptors, MethodDescriptor } from '../descriptors/descriptors';
import type { Message, MessageReader, ParsedFields } from './messageReader';
import { MessageReaders } from './messageReaders';
import { readQuery } from './queryReader';
import { addViolation } from './violations';

/** The parts of an HTTP request that set fields of the request message. */
export interface RequestParts {
  /** The decoded values of the path by their name in the route, which is a proto name or a JSON name. */
  readonly path: Readonly<Record<string, string>>;
  readonly query: URLSearchParams;
  /** The result of parseStrict; undefined if the request has no body. */
  readonly body: unknown;
  /** `body` of the HTTP route: `*`, the proto name of a field of the request, or empty for none. */
  readonly bodyRule: string;
  /** Whether a body is required, even if all of its fields are optional. */
  readonly isBodyRequired?: boolean;
}

/** Creates the readers that build the request messages of methods from HTTP requests. */
export class RequestReaders {
  private readonly messageReaders: MessageReaders;

  constructor(descriptors: Descriptors) {
    this.messageReaders = new MessageReaders(descriptors);
  }

  /** Creates the reader of a method. Throws if a google.protobuf type in the request is not supported. */
  createReader({ request, routes }: Pick<MethodDescriptor, 'request' | 'routes'>): RequestReader {
    return new RequestReader(
      this.messageReaders.getReader(request),
      new Set(['organization_id', ...(routes[0]?.pathFields ?? [])]),
    );
  }
}

/** Builds the request messages of one method. */
export class RequestReader {
  /** `allowedWithBody`: the proto names of the fields that the query may set if the body is `*`. */
  constructor(
    private readonly messageReader: MessageReader,
    private readonly allowedWithBody: ReadonlySet<string>,
  ) {}

  /**
   * Builds the request message as ts-proto represents it, without invalid values. Violations are appended to `out` with
   * their path in JSON names (at most 100). The caller must check that the organizations of the query and the body are
   * the same: the message has the organization of the body.
   */
  read(parts: RequestParts, out: Violation[]): Message {
    const fields = this.readBody(parts, out);
    this.addQuery(parts, fields, out);
    this.addPath(parts, fields, out);
    this.messageReader.checkRequired(fields, '', out);
    return this.messageReader.createMessage(fields);
  }

  /** Reads the fields that the body sets. */
  private readBody({ body, bodyRule, isBodyRequired }: RequestParts, out: Violation[]): ParsedFields {
    const fields: ParsedFields = new Map();
    if (body === undefined) {
      if (isBodyRequired) addViolation(out, '', 'the request has no body: send a JSON object');
      return fields;
    }
    if (bodyRule === '*') return this.messageReader.readFields(body, '', out) ?? fields;
    const field = bodyRule === '' ? undefined : this.messageReader.findByProtoName(bodyRule);
    if (!field) {
      if (!isObject(body) || Object.keys(body).length > 0) addViolation(out, '', this.describeUnexpectedBody());
      return fields;
    }
    const value = field.fromJson(body, field.jsonName, out);
    return value === undefined ? fields : fields.set(field, value);
  }

  /** Returns the violation for a body that the method does not accept; it names the fields that belong in the query. */
  private describeUnexpectedBody(): string {
    const names = this.messageReader.desc.fields
      .filter(({ name }) => !this.allowedWithBody.has(name))
      .map(({ jsonName }) => jsonName);
    return names.length === 0
      ? 'the request must not have a body'
      : `the request must not have a body: set ${names.join(', ')} in the query`;
  }

  /**
   * Adds the fields of the query. A field that the query and the body set to different values is a violation, except
   * the organization, which the caller compares.
   */
  private addQuery({ query, body, bodyRule }: RequestParts, fields: ParsedFields, out: Violation[]): void {
    const fromQuery = readQuery(query, this.messageReader, { bodyRule, allowedWithBody: this.allowedWithBody }, out);
    for (const [field, value] of fromQuery) {
      if (!fields.has(field)) fields.set(field, value);
      else if (field.name !== 'organization_id' && !isDeepStrictEqual(fields.get(field), value))
        addViolation(out, field.jsonName, 'has different values in the query and in the body: send only one of them');
    }
    if (fromQuery.size > 0 && body !== undefined) this.messageReader.checkOneofs(fields, '', out);
  }

  /** Adds the fields of the path. A field that the query or the body sets to another value is a violation. */
  private addPath({ path }: RequestParts, fields: ParsedFields, out: Violation[]): void {
    for (const [name, text] of Object.entries(path)) {
      const field = this.messageReader.findByProtoName(name) ?? this.messageReader.findByJsonName(name);
      if (!field?.singleValue?.fromText)
        throw new Error(`a route of ${this.messageReader.desc.typeName} contains ${name}, which a path cannot set`);
      const value = field.singleValue.fromText(text, field.jsonName, out);
      if (value === undefined) continue;
      if (fields.has(field) && !isDeepStrictEqual(fields.get(field), value))
        addViolation(out, field.jsonName, 'differs from the value in the path: remove it from the query and the body');
      fields.set(field, value);
    }
  }
}
