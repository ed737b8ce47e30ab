import type { HTTPMethods } from 'fastify';
import type { MethodHandler } from '../pipeline/methodHandler';
import type { HttpRoute } from '../descriptors/descriptors';
import type { Services } from '../services';

/** An HTTP route of a method. */
export interface RestRoute {
  readonly verb: HTTPMethods;
  /** In the syntax of the router: `/api/v2/devices/:id`. */
  readonly pattern: string;
  /**
   * What the body contains: `*`: the request message; empty: there is no body; otherwise the field with that proto
   * name.
   */
  readonly bodyRule: string;
  /** Whether a body is required: for PUT and PATCH, so that a lost body is not taken for a request without changes. */
  readonly isBodyRequired: boolean;
  readonly method: MethodHandler;
  readonly responseKind: ResponseKind;
}

/** The form of requests and responses: JSON, a stream of JSON responses, a response of bytes, or a request of bytes. */
export type ResponseKind = 'json' | 'stream' | 'download' | 'upload';

const VERBS_WITH_REQUIRED_BODY: ReadonlySet<string> = new Set(['PUT', 'PATCH']);

/**
 * Returns all routes of the services: those of the protos, and POST at the gRPC path for every method with a single
 * request message.
 */
export function listRestRoutes(services: Services): RestRoute[] {
  return [...services.methods.values()].flatMap((method) => {
    const { routes, path, kind } = method.descriptor;
    const protoRoutes = routes.map((route) => ({
      verb: route.verb,
      pattern: getPattern(route, method),
      bodyRule: route.body,
      isBodyRequired: route.body !== '' && VERBS_WITH_REQUIRED_BODY.has(route.verb),
      method,
      responseKind: getResponseKind(method),
    }));
    const hasSingleRequest = kind === 'unary' || kind === 'server_streaming';
    return hasSingleRequest
      ? [
          ...protoRoutes,
          {
            verb: 'POST' as const,
            pattern: path,
            bodyRule: '*',
            isBodyRequired: false,
            method,
            responseKind: kind === 'unary' ? ('json' as const) : ('stream' as const),
          },
        ]
      : protoRoutes;
  });
}

/**
 * Returns the form of the responses at the routes of the proto. At the gRPC path, a download is a stream of messages.
 */
function getResponseKind({ descriptor: { content, kind } }: MethodHandler): ResponseKind {
  if (content !== 'json') return content;
  return kind === 'unary' ? 'json' : 'stream';
}

/**
 * Converts a route of the proto to the syntax of the router, in which `:name` is a parameter and `::` a colon.
 * `{execution_id}` matches up to the next slash, or up to the custom verb that follows it, as in
 * `{execution_id}:cancel`.
 */
function getPattern({ route }: HttpRoute, { descriptor }: MethodHandler): string {
  const getName = (field: string): string =>
    descriptor.request.fields.find(({ name }) => name === field)?.jsonName ?? field;
  return route
    .replaceAll(':', '::')
    .replaceAll(/\{(\w+)\}(::)?/g, (_, field: string, verb: string | undefined) =>
      verb ? `:${getName(field)}(^[^:]+)::` : `:${getName(field)}`,
    );
}

/**
 * Returns the verbs of each path pattern. A stream has no HEAD, because it would have to be opened to know the headers.
 */
export function groupVerbsByPattern(
  routes: readonly Pick<RestRoute, 'pattern' | 'verb' | 'responseKind'>[],
): Map<string, HTTPMethods[]> {
  const verbsByPattern = new Map<string, HTTPMethods[]>();
  for (const { pattern, verb, responseKind } of routes)
    verbsByPattern.set(pattern, [
      ...(verbsByPattern.get(pattern) ?? []),
      verb,
      ...(verb === 'GET' && responseKind !== 'stream' ? ['HEAD'] : []),
    ]);
  return verbsByPattern;
}

interface KnownPath {
  readonly pattern: string;
  readonly verbs: readonly HTTPMethods[];
  readonly expression: RegExp;
}

/**
 * The verbs of each path, for requests with another verb. They are not in the router, because each unsupported verb
 * would need its own route there: about a thousand, which took longer than the rest of the start.
 */
export class VerbRegistry {
  private readonly paths: readonly KnownPath[];

  /** `verbsByPath`: the supported verbs of each path. */
  constructor(verbsByPath: ReadonlyMap<string, readonly HTTPMethods[]>) {
    const paths = Array.from(verbsByPath, ([pattern, verbs]) => ({
      pattern,
      verbs,
      expression: toExpression(pattern),
    }));
    this.paths = paths.toSorted((first, second) => (computeRank(first.pattern) < computeRank(second.pattern) ? -1 : 1));
  }

  /** Returns the value of the Allow header for a path; undefined if the path is unknown. */
  findAllow(path: string): string | undefined {
    const decoded = decodePath(path);
    const found = this.paths.find(({ expression }) => expression.test(decoded));
    return found && formatAllow(found.verbs);
  }

  /**
   * Finds the verbs that the router would accept for a path because of a more general pattern: `/devices/templates`
   * does not support all verbs of `/devices/:id`.
   */
  findShadowedVerbs(): { readonly url: string; readonly method: HTTPMethods[]; readonly allow: string }[] {
    const pathsWithParameters = this.paths.filter(({ pattern }) => pattern.includes(':'));
    return this.paths.flatMap(({ pattern, verbs }) => {
      const example = toExample(pattern);
      const acceptedVerbs = pathsWithParameters.flatMap((generalPath) =>
        generalPath.pattern !== pattern && generalPath.expression.test(example) ? generalPath.verbs : [],
      );
      const shadowedVerbs = [...new Set(acceptedVerbs)].filter((verb) => !verbs.includes(verb));
      return shadowedVerbs.length > 0 ? [{ url: pattern, method: shadowedVerbs, allow: formatAllow(verbs) }] : [];
    });
  }
}

function formatAllow(verbs: readonly HTTPMethods[]): string {
  return [...verbs, 'OPTIONS'].join(', ');
}

/** Decodes a path like the router: an escaped letter is that letter, but an escaped slash stays escaped. */
function decodePath(path: string): string {
  try {
    return decodeURI(path);
  } catch {
    return path;
  }
}

// In the syntax of the router: an escaped colon, or a parameter with an optional regular expression, as in
// `:id(^[^:]+)`. The group keeps the separators in the result of `split`.
const COLON_OR_PARAMETER = /(::|:\w+(?:\([^)]*\))?)/;

/**
 * Replaces the parameters of a route pattern by `mapParameter`, the plain texts between them by `mapPlain`, and `::` by
 * the colon for which it stands.
 */
function mapParts(
  pattern: string,
  mapParameter: (text: string) => string,
  mapPlain: (text: string) => string = (text) => text,
): string {
  return pattern
    .split(COLON_OR_PARAMETER)
    .map((part) => {
      if (part === '::') return ':';
      return /^:\w/.test(part) ? mapParameter(part) : mapPlain(part);
    })
    .join('');
}

/** Whether a custom verb follows a parameter, as in `:id(^[^:]+)::cancel`. */
const precedesVerb = (parameter: string): boolean => parameter.endsWith(')');

/** Converts a route pattern to a regular expression that matches its paths. */
function toExpression(pattern: string): RegExp {
  return new RegExp(
    `^${mapParts(
      pattern,
      (text) => (precedesVerb(text) ? '[^/:]+' : '[^/]+'),
      (text) => text.replaceAll('.', '\\.'),
    )}$`,
  );
}

/** Returns a path that matches the pattern: each parameter is `x`. */
const toExample = (pattern: string): string => mapParts(pattern, () => 'x');

/**
 * Returns the sort key of a pattern in the order in which the router tries patterns: literal text before parameters,
 * and parameters with a custom verb before others. They are replaced by characters that sort after all text.
 */
const computeRank = (pattern: string): string =>
  mapParts(pattern, (text) => (precedesVerb(text) ? '\ufffe' : '\uffff'));
