// Words and name patterns that the project no longer uses, and what to write instead. See CONTRIBUTING.md.

/** Patterns of identifiers. */
export const IDENTIFIERS = [
  [/^(MOST|LONGEST|LARGEST|LEAST|FEWEST|USUAL|SHORTEST|DEEPEST)(_|$)/, 'name bounds MAX_…, MIN_… or DEFAULT_…'],
  [/(^|_)AT_ONCE$/, 'write …_BATCH_SIZE or MAX_CONCURRENT_…'],
  [/^(most|least)[A-Z]/, 'write max… or min…'],
  [/(Tally|Seat|CellStock|House|Told)$/, 'name the type after what it is, for example Counter or SessionSlot'],
  [/^(laidEngine|sealedBy|takeBack|othersTurn|sayJson|blameless)$/, 'use a word of the field'],
  [/^(mend|anew|told|heard|house|giver|spoilt|spoiled|hung)$/, 'use a word of the field'],
  [/(^r|R)ival/, 'write conflict'],
  [/[a-z]Rooms?$/, 'write fixture in tests, and space for free bytes'],
  [/^pictures?$|[pP]icture[A-Z]/, 'write image or media'],
];

/** Patterns of functions: a name that ends in Of says nothing of what is done. */
export const FUNCTIONS = [[/^[a-z]\w*Of$/, 'start with a verb: get…, find…, list…, to…, parse…, format…, build…']];

/** Patterns of texts: string literals of the code, and all lines of pages, protos and deployment files. */
export const TEXTS = [
  [/\bmend(s|ed|ing)?\b/i, 'write "fix"'],
  [/\banew\b/i, 'write "again" or "from the beginning"'],
  [/\bby itself\b/i, 'write "automatically"'],
  [/\bfor ever\b/i, 'write "indefinitely" or a number'],
  [/\bswitched (on|off)\b/i, 'write "enabled" or "disabled"'],
  [/\b(thrown?|taken?) (away|back)\b/i, 'write "delete", "discard", "cancel" or "revoke"'],
  [/\bstands? in\b/i, 'write "is in"'],
  [/\bwhoever\b/i, 'say who'],
  [/\bof before\b/i, 'write "previous" or "earlier"'],
];

/** Files whose text is fixed: released migrations are hashed, and sandbox code runs as text. */
export const EXEMPT = [/^src\/database\/migrations\/0/, /^src\/codec\/guest\//, /\/gen\//, /^scripts\/lint\//];
