import { createHmac, timingSafeEqual } from 'node:crypto';
import type { Variant } from './media';

const VALID_MS = 3_600_000;
/** Links that are made within a quarter of an hour are the same, so that a browser finds the picture in its cache. */
const ROUND_MS = 900_000;

/** A link that holds. */
export interface OpenedLink {
  readonly organizationId: string;
  readonly id: string;
  readonly variant: Variant;
}

/** Links by which a browser gets a picture without a key: signed, for one picture of one organization, for an hour at least. */
export class MediaLinks {
  /** `publicUrl`: how browsers reach this server, without a slash at its end, known only once the port is bound; empty: they do not, and there are no links. */
  constructor(
    private readonly secret: Buffer,
    private readonly publicUrl: () => string,
    private readonly clock: { now(): number },
  ) {}

  /** Both links of a picture. */
  of(organizationId: string, id: string): { readonly url: string; readonly thumbnailUrl: string } {
    if (this.publicUrl() === '') return { url: '', thumbnailUrl: '' };
    const expires = String((Math.ceil((this.clock.now() + VALID_MS) / ROUND_MS) * ROUND_MS) / 1000);
    const link = (variant: Variant): string => {
      const query = new URLSearchParams({ organization: organizationId, variant, expires, signature: this.sign(organizationId, id, variant, expires) });
      return `${this.publicUrl()}/media/${encodeURIComponent(id)}?${query}`;
    };
    return { url: link('original'), thumbnailUrl: link('thumbnail') };
  }

  /** What a link opens; undefined for one that is forged, changed or too old. */
  open(id: string, query: URLSearchParams): OpenedLink | undefined {
    const organizationId = query.get('organization') ?? '';
    const variant = query.get('variant') ?? '';
    const expires = query.get('expires') ?? '';
    const signature = Buffer.from(query.get('signature') ?? '');
    const expected = Buffer.from(this.sign(organizationId, id, variant, expires));
    if (signature.length !== expected.length || !timingSafeEqual(signature, expected)) return undefined;
    return this.clock.now() < Number(expires) * 1000 ? { organizationId, id, variant: variant as Variant } : undefined; // signed: it is one
  }

  private sign(organizationId: string, id: string, variant: string, expires: string): string {
    return createHmac('sha256', this.secret).update(JSON.stringify(['media', organizationId, id, variant, expires])).digest('base64url');
  }
}
