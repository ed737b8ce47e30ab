import type { DescField } from '@bufbuild/protobuf';
import type { HttpRoute, MethodDescriptor } from '../../src/api/descriptors/descriptors';

/** An operation of the document: a method at one of its HTTP routes, or at its gRPC path. */
export interface Operation {
  readonly method: MethodDescriptor;
  /** The path in OpenAPI syntax: `/api/v2/devices/{id}/sensors/{sensorId}`. */
  readonly path: string;
  /** `get`, `post`... */
  readonly verb: string;
  readonly operationId: string;
  readonly kind: 'main' | 'additional' | 'grpc';
  readonly pathFields: readonly DescField[];
  readonly queryFields: readonly DescField[];
  /** The proto names of fields that are required in the query of this route, because they are not in its path. */
  readonly requiredInQuery: ReadonlySet<string>;
  /** The proto names of the fields that are not in the body; undefined if there is no body. */
  readonly notInBody: ReadonlySet<string> | undefined;
}

const VARIABLE = /\{([a-z0-9_]+)\}/g;

/** The operations of a document: the REST routes, or POST at the gRPC path of each method. */
export type DocumentKind = 'rest' | 'grpc';

/** Returns the operations of a method in a document. Only methods with a single request message have a gRPC path. */
export function findOperations(descriptor: MethodDescriptor, kind: DocumentKind): Operation[] {
  if (kind === 'rest')
    return descriptor.routes.map((route, index) =>
      buildRestOperation(descriptor, route, index === 0 ? undefined : descriptor.routes[0]),
    );
  return descriptor.kind === 'unary' || descriptor.kind === 'server_streaming' ? [buildGrpcOperation(descriptor)] : [];
}

/**
 * Builds the operation of a REST route. `main`: the primary route of the method if this is an additional one. Fields in
 * the path of the primary route that this route does not contain are then required in the query. With a body, the query
 * has only these fields and the organization.
 */
function buildRestOperation(
  descriptor: MethodDescriptor,
  { verb, route, body, pathFields }: HttpRoute,
  main: HttpRoute | undefined,
): Operation {
  const inPath = new Set(pathFields);
  const movedToQuery = (main?.pathFields ?? []).filter((name) => !inPath.has(name));
  const fieldsNotInPath = descriptor.request.fields.filter(({ name }) => !inPath.has(name));
  const hasBody = body === '*' && descriptor.content !== 'upload';
  if (body !== '' && body !== '*')
    throw new Error(`${descriptor.path}: the OpenAPI document does not support a body of one field (${body})`);
  const queryFieldsWithBody = fieldsNotInPath.filter(
    ({ name }) => name === 'organization_id' || movedToQuery.includes(name),
  );
  return {
    method: descriptor,
    path: route.replaceAll(VARIABLE, (_, name: string) => `{${getJsonName(descriptor, name)}}`),
    verb: verb.toLowerCase(),
    operationId: main
      ? `${getOperationName(descriptor)}By${movedToQuery.map((name) => capitalize(getJsonName(descriptor, name))).join('')}InQuery`
      : getOperationName(descriptor),
    kind: main ? 'additional' : 'main',
    pathFields: descriptor.request.fields.filter(({ name }) => inPath.has(name)),
    queryFields: hasBody ? queryFieldsWithBody : fieldsNotInPath.filter((field) => isInQuery(descriptor, field)),
    requiredInQuery: new Set(movedToQuery),
    notInBody: hasBody ? new Set([...inPath, ...movedToQuery]) : undefined,
  };
}

/** Builds the operation at the gRPC path, with the complete request in the body. */
function buildGrpcOperation(descriptor: MethodDescriptor): Operation {
  const operationId = `grpc${capitalize(getOperationName(descriptor))}`;
  return {
    method: descriptor,
    path: descriptor.path,
    verb: 'post',
    operationId,
    kind: 'grpc',
    pathFields: [],
    queryFields: [],
    requiredInQuery: new Set(),
    notInBody: new Set(),
  };
}

/** Returns the name of the operation, for example `listDigitalDevices`. */
export function getOperationName(descriptor: MethodDescriptor): string {
  const name = descriptor.path.slice(descriptor.path.lastIndexOf('/') + 1);
  return name.charAt(0).toLowerCase() + name.slice(1);
}

/**
 * Whether a query can set a field. The chunk of an upload is the body; the Range header sets the offset of a download.
 */
function isInQuery({ content }: MethodDescriptor, { name }: DescField): boolean {
  return !(content === 'upload' && name === 'chunk') && !(content === 'download' && name === 'offset');
}

function getJsonName(descriptor: MethodDescriptor, name: string): string {
  return descriptor.request.fields.find((field) => field.name === name)?.jsonName ?? name;
}

export function capitalize(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
