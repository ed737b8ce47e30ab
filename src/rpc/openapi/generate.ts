import { Descriptors } from '../descriptors';
import { openApiDocument } from './document';

/** The OpenAPI document as JSON. `image`: the descriptors with their comments, as `buf build` writes them. For the build alone. */
export function generate(image: Uint8Array, version: string): string {
  return JSON.stringify(openApiDocument(new Descriptors(image), version));
}
