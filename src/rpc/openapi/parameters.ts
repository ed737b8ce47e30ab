import type { DescField } from '@bufbuild/protobuf';
import type { Comments } from './comments';
import { compact, ref, type JsonObject } from './json';
import type { Place } from './routes';
import type { Schemas } from './schemas';

/** The headers that every operation takes, or those of one kind. */
export const HEADER_PARAMETERS: Readonly<Record<string, JsonObject>> = {
  RequestId: {
    name: 'x-request-id',
    in: 'header',
    description: 'Your own id for the request, at most 128 printable characters. The answer carries it, the log of the server too.',
    schema: { type: 'string' }, // a longer one is no mistake: the server takes one of its own then
  },
  IfMatch: {
    name: 'If-Match',
    in: 'header',
    description: 'The header `ETag` of the record as it was read: 412 `changed_meanwhile` when somebody was faster. The field `etag` of the request says the same.',
    schema: { type: 'string' },
  },
  IfNoneMatch: {
    name: 'If-None-Match',
    in: 'header',
    description: 'The header `ETag` of an answer that you still have; 304 without a body when it is the same now.',
    schema: { type: 'string' },
  },
  LastEventId: {
    name: 'Last-Event-ID',
    in: 'header',
    description: 'Stands for `resumeToken`: readers of Server-Sent Events send it by themselves when they come again.',
    schema: { type: 'string' },
  },
  Range: {
    name: 'Range',
    in: 'header',
    description: 'Only some of the bytes, for example `bytes=0-1023`; the answer is 206 then.',
    schema: { type: 'string' },
  },
};

/** The parameters of a place: path, query, headers. */
export function parametersOf(place: Place, { comments, schemas }: { readonly comments: Comments; readonly schemas: Schemas }): JsonObject[] {
  const described = (field: DescField, where: 'path' | 'query', name: string, needed: boolean): JsonObject => {
    const list = field.fieldKind === 'list' ? { style: 'form', explode: true } : {};
    return compact({ name, in: where, required: needed || undefined, description: comments.of(field), ...list, schema: schemas.parameter(field) });
  };
  const inQuery = (field: DescField): JsonObject[] => {
    const needed = schemas.isNeeded(field) || place.neededInQuery.has(field.name);
    // A message of ours is taken apart: `bucket.count`.
    if (field.fieldKind === 'message' && !field.message.typeName.startsWith('google.')) return field.message.fields.map((one) => described(one, 'query', `${field.jsonName}.${one.jsonName}`, needed && schemas.isNeeded(one)));
    return [described(field, 'query', field.jsonName, needed)];
  };
  return [...place.pathFields.map((field) => described(field, 'path', field.jsonName, true)), ...place.queryFields.flatMap(inQuery), ...headersOf(place)];
}

function headersOf({ facts, verb }: Place): JsonObject[] {
  const takes = (name: string): boolean => facts.request.fields.some((field) => field.name === name);
  const isStream = facts.kind === 'server_streaming' && facts.content === 'json';
  const names = [
    'RequestId',
    ...(takes('etag') ? ['IfMatch'] : []),
    ...(verb === 'get' && !isStream ? ['IfNoneMatch'] : []),
    ...(isStream && takes('resume_token') ? ['LastEventId'] : []),
    ...(facts.content === 'download' && verb === 'get' ? ['Range'] : []),
  ];
  return names.map((name) => ref('parameters', name));
}
