import { foldName } from '../../database';

/** What a brand or a model may be called. */
export interface Names {
  readonly id: string;
  readonly name: string;
  readonly otherNames: readonly string[];
}

/** A way to name a model together with its brand, folded. */
export interface Spelling {
  readonly brand: string;
  readonly model: string;
  /** 0: both are ids; 1: a name in place of one or both; 2: an identifier of the repository, or a model without its brand before it. */
  readonly rank: number;
}

/** An index of PostgreSQL takes no longer ones; nobody types them. */
const LONGEST = 200;

/** All ways to name a model of a brand, each once with the best rank that it has. */
export function spellingsOf(brand: Names, model: Names): Spelling[] {
  const brands = ranked([[brand.id], [brand.name], brand.otherNames]);
  const alone = [model.id, model.name].flatMap((name) => withoutBrand(foldSpelling(name), [...brands.keys()]));
  const models = ranked([[model.id], [model.name], [...model.otherNames, ...alone]]);
  return [...brands].flatMap(([ofBrand, brandRank]) => [...models].map(([ofModel, modelRank]) => ({ brand: ofBrand, model: ofModel, rank: Math.max(brandRank, modelRank) })));
}

/** Folded texts with the first rank at which they stand. */
function ranked(ranks: readonly (readonly string[])[]): Map<string, number> {
  const found = new Map<string, number>();
  for (const [rank, texts] of ranks.entries()) {
    for (const text of texts.map(foldSpelling)) if (text !== '' && text.length <= LONGEST && !found.has(text)) found.set(text, rank);
  }
  return found;
}

/** `t-100` of `acme t-100` and of `acme-t-100`. */
function withoutBrand(model: string, brands: readonly string[]): string[] {
  return brands.flatMap((brand) => (model.startsWith(brand) && /^[\s_/-]/.test(model.slice(brand.length)) ? [model.slice(brand.length).replace(/^[\s_/-]+/, '')] : []));
}

/** A name as it is stored among the spellings and looked up; PostgreSQL holds no NUL. */
export function foldSpelling(text: string): string {
  return foldName(text.replaceAll('\0', '').trim());
}
