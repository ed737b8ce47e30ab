import { Descriptors } from '../../src/api/descriptors/descriptors';
import { buildOpenApiDocument } from './document';
import type { DocumentKind } from './routes';

/**
 * Returns an OpenAPI document as JSON text. `image`: the descriptors with comments, as `buf build` writes them. Only
 * the build uses it.
 */
export function generate(image: Uint8Array, kind: DocumentKind): string {
  return JSON.stringify(buildOpenApiDocument(new Descriptors(image), kind));
}
