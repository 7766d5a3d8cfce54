/* forecast.h: how long a plan will take, printed before it begins. */
#ifndef FLEET_FORECAST_H
#define FLEET_FORECAST_H

#include "calibrate.h"
#include "plan.h"

struct forecast {
	double visit_s; /* all least rounds of one visit, of the kind now counted */
	double total_s;
};

/* From here on visits take as long as this trial of the first of them says. */
void forecast_use(struct forecast *forecast, const struct plan *plan,
		  const struct clock_facts *clock, const struct trial *trial,
		  const struct visit *visit);

/* Counts one more visit. */
void forecast_add(struct forecast *forecast);

/* Puts it into a sentence. */
void forecast_tell(const struct forecast *forecast, const struct plan *plan, char *text,
		   size_t room);

#endif
