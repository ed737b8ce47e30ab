import type { HTTPMethods } from 'fastify';
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

interface TakenPath {
  readonly pattern: string;
  readonly verbs: readonly HTTPMethods[];
  readonly expression: RegExp;
}

/**
 * What each path takes, for those who send it something else. Beside the router, where each verb that a path does not take would be a route of
 * its own: a thousand of them, which took longer than all the rest of a start.
 */
export class TakenVerbs {
  private readonly paths: readonly TakenPath[];

  /** The verbs of each path. */
  constructor(taken: ReadonlyMap<string, readonly HTTPMethods[]>) {
    const paths = Array.from(taken, ([pattern, verbs]) => ({ pattern, verbs, expression: expressionOf(pattern) }));
    this.paths = paths.toSorted((a, b) => (rankOf(a.pattern) < rankOf(b.pattern) ? -1 : 1));
  }

  /** What a path takes, for the header Allow; undefined: there is no such path. */
  findAllow(path: string): string | undefined {
    const plain = decoded(path);
    const found = this.paths.find(({ expression }) => expression.test(plain));
    return found && allowOf(found.verbs);
  }

  /** The verbs that the router would take for a pattern by way of a wider one: `/devices/templates` does not take what `/devices/:id` does. */
  hidden(): { readonly url: string; readonly method: HTTPMethods[]; readonly allow: string }[] {
    const wide = this.paths.filter(({ pattern }) => pattern.includes(':'));
    return this.paths.flatMap(({ pattern, verbs }) => {
      const example = exampleOf(pattern);
      const others = wide.flatMap((other) => (other.pattern !== pattern && other.expression.test(example) ? other.verbs : []));
      const method = [...new Set(others)].filter((verb) => !verbs.includes(verb));
      return method.length > 0 ? [{ url: pattern, method, allow: allowOf(verbs) }] : [];
    });
  }
}

function allowOf(verbs: readonly HTTPMethods[]): string {
  return [...verbs, 'OPTIONS'].join(', ');
}

// As the router reads it: what stands for a letter is that letter, what stands for a slash is none.
function decoded(path: string): string {
  try {
    return decodeURI(path);
  } catch {
    return path;
  }
}

const PARAMETER = /(::|:\w+(?:\([^)]*\))?)/;

function partsOf(pattern: string, parameter: (text: string) => string, plain: (text: string) => string = (text) => text): string {
  return pattern.split(PARAMETER).map((part) => (part === '::' ? ':' : /^:\w/.test(part) ? parameter(part) : plain(part))).join('');
}

/** One that a verb follows, `:id(^[^:]+)`, ends where that begins. */
const isCut = (parameter: string): boolean => parameter.endsWith(')');

function expressionOf(pattern: string): RegExp {
  return new RegExp(`^${partsOf(pattern, (text) => (isCut(text) ? '[^/:]+' : '[^/]+'), (text) => text.replaceAll('.', '\\.'))}$`);
}

const exampleOf = (pattern: string): string => partsOf(pattern, () => 'x');

/** Sorts as the router prefers: words before parameters, and what follows them before their end. */
const rankOf = (pattern: string): string => partsOf(pattern, (text) => (isCut(text) ? '\ufffe' : '\uffff'));
