import type { FastifyInstance, HTTPMethods } from 'fastify';
import type { ServedMethod } from '../calls/servedMethod';
import type { HttpRoute } from '../descriptors';
import type { Services } from '../services';

/** One way to a method over HTTP. */
export interface RestRoute {
  readonly verb: HTTPMethods;
  /** In the words of the router: `/api/v2/devices/:id`. */
  readonly pattern: string;
  /** What the body stands for: `*` the request, empty: there is none, else the field of that name. */
  readonly bodyRule: string;
  /** What changes or replaces a record must say to what: a body that got lost is no change. */
  readonly needsBody: boolean;
  readonly method: ServedMethod;
  readonly form: AnswerForm;
}

/** In what form a route takes and answers: JSON, a stream of JSON, bytes that are answered, bytes that are taken. */
export type AnswerForm = 'json' | 'stream' | 'download' | 'upload';

const CHANGING: ReadonlySet<string> = new Set(['PUT', 'PATCH']);

/** Every route of the services: those that the protos name, and for what takes one message also POST at the gRPC path. */
export function restRoutes(services: Services): RestRoute[] {
  return [...services.methods.values()].flatMap((method) => {
    const { routes, path, kind } = method.facts;
    const named = routes.map((route) => ({ verb: route.verb, pattern: patternOf(route, method), bodyRule: route.body, needsBody: route.body !== '' && CHANGING.has(route.verb), method, form: formOf(method) }));
    const takesOne = kind === 'unary' || kind === 'server_streaming';
    return takesOne ? [...named, { verb: 'POST' as const, pattern: path, bodyRule: '*', needsBody: false, method, form: kind === 'unary' ? ('json' as const) : ('stream' as const) }] : named;
  });
}

// At the gRPC path a download is the stream of messages that it is there.
function formOf({ facts: { content, kind } }: ServedMethod): AnswerForm {
  if (content !== 'json') return content;
  return kind === 'unary' ? 'json' : 'stream';
}

// `{execution_id}` takes all up to the next slash, or to the verb that follows it as in `{execution_id}:cancel`.
function patternOf({ route }: HttpRoute, { facts }: ServedMethod): string {
  const nameOf = (field: string): string => facts.request.fields.find(({ name }) => name === field)?.jsonName ?? field;
  return route.replaceAll(':', '::').replaceAll(/\{(\w+)\}(::)?/g, (_, field: string, verb: string | undefined) => (verb ? `:${nameOf(field)}(^[^:]+)::` : `:${nameOf(field)}`));
}

/** The verbs of each path. A stream has no HEAD: it would have to open to say what it is. */
export function verbsOf(routes: readonly Pick<RestRoute, 'pattern' | 'verb' | 'form'>[]): Map<string, HTTPMethods[]> {
  const verbs = new Map<string, HTTPMethods[]>();
  for (const { pattern, verb, form } of routes) verbs.set(pattern, [...(verbs.get(pattern) ?? []), verb, ...(verb === 'GET' && form !== 'stream' ? ['HEAD'] : [])]);
  return verbs;
}

const VERBS: readonly HTTPMethods[] = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'TRACE', 'QUERY'];

/** What a path takes, for the header Allow; undefined: there is no such path. For verbs that the router does not know. */
export function findAllow(taken: ReadonlyMap<string, readonly HTTPMethods[]>, path: string): string | undefined {
  for (const [pattern, verbs] of taken) if (expressionOf(pattern).test(path)) return allowOf(verbs);
  return undefined;
}

function allowOf(verbs: readonly HTTPMethods[]): string {
  return [...verbs, 'OPTIONS'].join(', ');
}

function expressionOf(pattern: string): RegExp {
  const parts = pattern.split(/(::|:\w+(?:\([^)]*\))?)/);
  return new RegExp(`^${parts.map((part) => (part === '::' ? ':' : /^:\w/.test(part) ? '[^/:]+' : part.replaceAll('.', '\\.'))).join('')}$`);
}

/** Answers the verbs that a known path does not take: OPTIONS with what it takes, others by `refuse`. */
export function addOtherVerbs(app: FastifyInstance, taken: ReadonlyMap<string, readonly HTTPMethods[]>, refuse: (allow: string) => never): void {
  for (const [url, verbs] of taken) {
    const allow = allowOf(verbs);
    const others = VERBS.filter((verb) => !verbs.includes(verb));
    app.route({ method: 'OPTIONS', url, handler: async (_, reply) => await reply.code(204).header('allow', allow).send() });
    if (others.length === 0) continue;
    app.route({
      method: others,
      url,
      exposeHeadRoute: false,
      onRequest: (_, reply) => {
        void reply.header('allow', allow);
        refuse(allow);
      },
      handler: () => refuse(allow),
    });
  }
}
