"""From numbers to what people look at: charts, the decision sentence, one offline page."""
