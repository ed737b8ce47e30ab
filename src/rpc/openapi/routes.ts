import type { DescField } from '@bufbuild/protobuf';
import type { HttpRoute, MethodFacts } from '../descriptors';

/** One place of the document: a method by one of its HTTP routes, or by its gRPC path. */
export interface Place {
  readonly facts: MethodFacts;
  /** As OpenAPI writes it: `/api/v2/devices/{id}/sensors/{sensorId}`. */
  readonly path: string;
  /** `get`, `post`... */
  readonly verb: string;
  readonly operationId: string;
  readonly kind: 'main' | 'additional' | 'grpc';
  /** Where the fields of the request stand. */
  readonly pathFields: readonly DescField[];
  readonly queryFields: readonly DescField[];
  /** Those that stand in the query of this place, and may not be left out. */
  readonly neededInQuery: ReadonlySet<string>;
  /** The names of the fields that do not stand in the body; undefined when there is none. */
  readonly notInBody: ReadonlySet<string> | undefined;
}

const VARIABLE = /\{([a-z0-9_]+)\}/g;

/** Every place of a method: its routes, and POST at its gRPC path where it takes one message. */
export function placesOf(facts: MethodFacts): Place[] {
  const places = facts.routes.map((route, at) => placeOf(facts, route, at === 0 ? undefined : facts.routes[0]));
  return facts.kind === 'unary' || facts.kind === 'server_streaming' ? [...places, grpcPlace(facts)] : places;
}

function placeOf(facts: MethodFacts, { verb, route, body, ...own }: HttpRoute, main: HttpRoute | undefined): Place {
  const inPath = new Set(own.inPath);
  const moved = (main?.inPath ?? []).filter((name) => !inPath.has(name));
  const others = facts.request.fields.filter(({ name }) => !inPath.has(name));
  const isBody = body === '*' && facts.content !== 'upload';
  if (body !== '' && body !== '*') throw new Error(`${facts.path}: the OpenAPI document does not know a body of one field yet (${body})`);
  const besideBody = others.filter(({ name }) => name === 'organization_id' || moved.includes(name));
  return {
    facts,
    path: route.replaceAll(VARIABLE, (_, name: string) => `{${jsonName(facts, name)}}`),
    verb: verb.toLowerCase(),
    operationId: main ? `${operationName(facts)}By${moved.map((name) => capital(jsonName(facts, name))).join('')}InQuery` : operationName(facts),
    kind: main ? 'additional' : 'main',
    pathFields: facts.request.fields.filter(({ name }) => inPath.has(name)),
    queryFields: isBody ? besideBody : others.filter((field) => isInQuery(facts, field)),
    neededInQuery: new Set(moved),
    notInBody: isBody ? new Set([...inPath, ...moved]) : undefined,
  };
}

function grpcPlace(facts: MethodFacts): Place {
  const operationId = `grpc${capital(operationName(facts))}`;
  return { facts, path: facts.path, verb: 'post', operationId, kind: 'grpc', pathFields: [], queryFields: [], neededInQuery: new Set(), notInBody: new Set() };
}

/** `listDigitalDevices`. */
export function operationName(facts: MethodFacts): string {
  const name = facts.path.slice(facts.path.lastIndexOf('/') + 1);
  return name.charAt(0).toLowerCase() + name.slice(1);
}

// The bytes are the body; ranges say where a download begins.
function isInQuery({ content }: MethodFacts, { name }: DescField): boolean {
  return !(content === 'upload' && name === 'chunk') && !(content === 'download' && name === 'offset');
}

function jsonName(facts: MethodFacts, name: string): string {
  return facts.request.fields.find((field) => field.name === name)?.jsonName ?? name;
}

function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
